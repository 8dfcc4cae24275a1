"""Admission webhooks: which are asked about a write, what they are asked, what their answer means.

``hooks`` reads the configurations, ``matching`` says which of them a write concerns, ``reviews``
writes AdmissionReviews and reads answers, ``conversation`` asks in the order of kube-apiserver.
Nothing here waits: a question without an answer ends the attempt (:class:`Unanswered`), the
server gets the answer, and the write is tried again with it. An object that has changed
meanwhile makes another question, so what is stored is always what the webhooks have seen.

Differences from kube-apiserver: what the control plane itself writes (the garbage collector, the
end of a namespace, default ServiceAccounts) is not sent to webhooks, nor are tokens, reviews and
the ``finalize`` and ``scale`` subresources; there are no ``matchConditions``; where several
validating webhooks refuse, the first in order is told of. Nothing here routes the addresses of a
Service: ``http.webhooks`` says how a reference to one is followed.
"""
