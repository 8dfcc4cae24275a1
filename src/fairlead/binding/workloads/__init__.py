"""Workloads: what a binding does to them, and what it has done.

``operations`` is what handlers may do, and ``workload`` does it to objects of Kubernetes. What was
done is recorded on the workload (``records``), so that what is there can be told to be ours or
somebody else's (``holdings``), put there and taken away (``projection``), and taken over from
before there were records (``takeover``).
"""
