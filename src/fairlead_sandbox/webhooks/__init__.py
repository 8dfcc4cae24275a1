"""Admission webhooks: selection, questions, answers, and their order.

``hooks`` reads the configurations, ``matching`` selects the webhooks of a write, ``reviews``
writes AdmissionReviews and reads answers, ``conversation`` asks in the order of kube-apiserver.
Nothing here waits. A question without an answer ends the attempt (:class:`Unanswered`), the
server calls the webhook, and the write is tried again with the answer. If the object has changed
meanwhile, it makes another question, so the stored object is always the reviewed one.

Differences from kube-apiserver: writes of the control plane itself (the garbage collector, the
end of a namespace, default ServiceAccounts) are not sent to webhooks, nor are tokens, reviews and
the ``finalize`` and ``scale`` subresources; there are no ``matchConditions``; if several
validating webhooks refuse, the first in order is reported. Addresses of Services are not routed:
``http.webhooks`` tells how a reference to a Service is followed.
"""
