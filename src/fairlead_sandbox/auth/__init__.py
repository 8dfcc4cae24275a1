"""Authentication and authorization: certificates, tokens, RBAC and the reviews.

``guard`` authenticates a request by its client certificate (``pki``), its bearer token
(``tokens``) or as anonymous, follows ``impersonation``, and asks the ``authorizer``, which reads
the rules of roles and bindings from the ``index``. ``escalation`` keeps users from granting rights
that they do not hold. ``reviews`` and ``tokenrequest`` serve the APIs about these rights and
tokens, ``bootstrap`` has the roles of a new cluster, ``credentials`` writes token Secrets and CA
ConfigMaps, and ``setup`` adds it all to a control plane.
"""

from __future__ import annotations

from fairlead_sandbox.auth.setup import Secrets, install


__all__ = ["Secrets", "install"]
