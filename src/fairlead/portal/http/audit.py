"""The audit log: one line per sign-in, refusal, bind, hand-over and revocation."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from aiohttp import web

from fairlead.portal.http.metrics import METRICS
from fairlead.portal.http.requests import ADDRESS, REQUEST_ID


# Whatever level the program logs at, who did what is written.
_log = structlog.wrap_logger(
    None,
    wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    logger_name="fairlead.portal.audit",
)


def audit(
    event: str,
    *,
    who: str = "",
    what: str,
    result: str = "done",
    request: web.Request | None = None,
    **more: Any,
) -> None:
    """Write the line of an event; no argument may hold a credential.

    Args:
        event: such as ``sign-in`` or ``bind``.
        who: the person's author name, "" if unknown; the API server's audit log may name them.
        what: such as a template, a consumer or a path.
        result: such as ``done``, or the reason for the refusal.
        request: source of the client's address and the request's id, if one caused the event.
        more: fields of this event alone.
    """
    metrics = None if request is None else request.config_dict.get(METRICS)
    if metrics is not None:
        # A code is half a sign-in; it is counted when the code is redeemed.
        if event == "sign-in" and (what != "code" or result == "refused"):
            metrics.signed_in(result)
        elif event == "sign-out":
            metrics.signed_out()
    _log.info(
        event,
        who=who,
        what=what,
        result=result,
        address="" if request is None else request.get(ADDRESS, ""),
        request="" if request is None else request.get(REQUEST_ID, ""),
        **more,
    )
