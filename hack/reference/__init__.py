"""The manual's reference, made from the code: ``python -m hack.reference docs/reference``.

``resources`` has a page for each CRD of ``config/crd``, ``commands`` one for each command, and
``alerts`` one for all rules of ``config/alerts``; ``sandbox`` fills the tables of its page. The
pages of metrics and of reasons are those of ``hack.metrics`` and ``hack.reasons``.
"""
