"""Who may do what: the sandbox's CA, credentials, RBAC and the reviews."""

from __future__ import annotations

from fairlead.sandbox.auth.setup import Secrets, install


__all__ = ["Secrets", "install"]
