"""Errors of patches, as kube-apiserver answers them."""

from __future__ import annotations


class PatchError(Exception):
    """The patch cannot be decoded, or does not fit the object.

    ``message`` is kube-apiserver's text and ``code`` its HTTP status. If that text is general,
    ``detail`` names the operation and the path for ``Status.details.causes``, and ``reason`` is
    the reason of that cause.
    """

    def __init__(self, message: str, code: int, detail: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.detail = detail
        self.reason = reason


def rejected(detail: str) -> PatchError:
    """Return the 422 of a failed operation of a JSON patch, with kube-apiserver's general text."""
    text = "the server rejected our request due to an error in our request"
    return PatchError(text, 422, detail)
