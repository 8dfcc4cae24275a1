"""Errors of a front door's client; their messages contain no secrets."""

from __future__ import annotations


class FrontDoorError(Exception):
    """Base class of this package's errors."""


class Unreachable(FrontDoorError):  # noqa: N818  named after what happened
    """No complete answer came; the message names the server and the remedy."""


class StrangeAnswer(FrontDoorError):  # noqa: N818  named after what happened
    """The server answered, but not in the form of a front door."""


class Refused(FrontDoorError):  # noqa: N818  named after what happened
    """The server refused; ``code`` is that of its Error, "" without one."""

    def __init__(self, message: str, *, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SignInNeeded(Refused):
    """The server demands a new sign-in."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=401, code="AUTHENTICATION_FAILED")
