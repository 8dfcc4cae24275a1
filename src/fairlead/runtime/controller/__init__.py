"""Controllers: what changes becomes requests, each of which a worker has reconciled.

``queue`` holds each request once, ``reconcile`` is what reconcilers are asked and answer, and
``controller`` runs them; ``memory`` gives back what a burst of them has used.
"""
