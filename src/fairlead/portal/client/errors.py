"""What can go wrong between a terminal and a front door; messages have no secrets."""

from __future__ import annotations


class FrontDoorError(Exception):
    """The base of everything that this package raises on purpose."""


class Unreachable(FrontDoorError):  # noqa: N818  named after what happened
    """There was no whole answer; the message names the server and the remedy."""


class StrangeAnswer(FrontDoorError):  # noqa: N818  named after what happened
    """Something answered that is no front door of kube-bind's."""


class Refused(FrontDoorError):  # noqa: N818  named after what happened
    """The server said no: its HTTP status, the code of its Error, "" without one."""

    def __init__(self, message: str, *, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SignInNeeded(Refused):
    """The server does not know who asks."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=401, code="AUTHENTICATION_FAILED")
