"""Why a patch could not be applied."""

from __future__ import annotations


class PatchError(Exception):
    """The patch does not fit the object, or is none.

    ``message`` is the real server's text, ``code`` its HTTP status. Where that text says nothing,
    ``detail`` names the operation and the path, for ``Status.details.causes``, and ``reason`` is
    the cause's.
    """

    def __init__(self, message: str, code: int, detail: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.detail = detail
        self.reason = reason


def rejected(detail: str) -> PatchError:
    """An operation of a JSON patch failed: 422, with a text that the real server keeps general."""
    text = "the server rejected our request due to an error in our request"
    return PatchError(text, 422, detail)
