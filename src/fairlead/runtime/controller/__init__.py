"""Controllers: changes become requests, and workers call a reconciler for each request.

``queue`` holds each request once, ``reconcile`` has the types of requests, results and mappers,
``controller`` runs the workers, and ``memory`` returns free memory to the system after a burst.
"""
