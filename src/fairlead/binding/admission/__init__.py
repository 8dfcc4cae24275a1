"""The webhooks of the binding: who edited a binding last, and what no binding or mapping may say.

``rules`` and ``requester`` decide and do no I/O, ``serving`` makes a server of them. Everything
that is refused here the pipeline also tells of in a condition, where the webhooks are off.
"""
