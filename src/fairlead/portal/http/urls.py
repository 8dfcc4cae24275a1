"""The server's address as clients reach it."""

from __future__ import annotations

from fairlead.portal.options import ExternalURL


__all__ = ["ExternalURL"]
