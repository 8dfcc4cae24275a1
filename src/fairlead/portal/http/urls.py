"""The address under which the outside reaches the server."""

from __future__ import annotations

from fairlead.portal.options import ExternalURL


__all__ = ["ExternalURL"]
