"""The address under which the outside reaches the server."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec


class ExternalURL(msgspec.Struct, frozen=True):
    """Scheme, authority and path of ``--external-url``; the path has no slash at its end.

    All addresses that go out are made of it, and none of a Host header.
    """

    scheme: str
    authority: str
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> ExternalURL:
        """Read an address such as ``https://bind.example.org/fairlead``.

        Raises:
            ValueError: it is no http or https address, or has a user, a query or a fragment.
        """
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{text!r} has to be an address such as https://bind.example.org")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"{text!r} may have no user, no query and no fragment")
        _ = parts.port
        return cls(parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"))

    @property
    def secure(self) -> bool:
        """Whether it is https."""
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """Scheme and authority, as browsers say them."""
        return f"{self.scheme}://{self.authority}"

    def absolute(self, path: str) -> str:
        """The whole address of a path of ours, which begins with a slash."""
        return f"{self.origin}{self.path}{path}"
