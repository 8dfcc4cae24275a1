"""Wrong clocks: the one here judges certificates, that of a server judges credentials."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from fairlead.api.timestamps import moment
from fairlead.client import limits


_BY_TIME = {9: "is not valid yet", 10: "has expired"}
"""Faults of certificates that come from time, by OpenSSL's numbers in ``x509_vfy.h``."""


def certificate_clock(error: BaseException) -> str:
    """Return what a refused certificate is by the clock here, and the remedy.

    It returns "" if the certificate was refused for another reason. The error is an
    ``ssl.SSLCertVerificationError``. The text is the same for a whole day, since it goes into
    conditions.
    """
    fault = _BY_TIME.get(getattr(error, "verify_code", 0))
    if fault is None:
        return ""
    return (
        f"its certificate, or one of its authority, {fault} by the clock of this machine, which "
        f"says {moment():%Y-%m-%d}; set that clock if it is wrong, else renew the "
        "server's certificate"
    )


def clock_difference(date: str) -> str:
    """Return how the clock of a server differs from ours, and the remedy; "" if it does not much.

    ``date`` is the header Date of its answer (RFC 9110, 6.6.1), "" if there is none.
    """
    try:
        ahead = (parsedate_to_datetime(date[: limits.DATE_CHARACTERS]) - moment()).total_seconds()
    except (ValueError, TypeError, OverflowError):
        # No date, or one without a zone.
        return ""
    if abs(ahead) < limits.CLOCK_SECONDS:
        return ""
    where = "ahead of" if ahead > 0 else "behind"
    return (
        f"the server's clock is {_rounded(abs(ahead))} {where} the one of this machine, and "
        "credentials are valid only for a limited time: set the clock that is wrong"
    )


def _rounded(seconds: float) -> str:
    """Return a duration in whole units, which is the same at each attempt."""
    units = (("days", 86400), ("hours", 3600), ("minutes", 60))
    unit, length = next(pair for pair in units if seconds >= 2 * pair[1])
    return f"about {round(seconds / length)} {unit}"
