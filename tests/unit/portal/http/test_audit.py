"""What the lines of the audit log count as."""

from __future__ import annotations

import io
import json

import structlog
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from fairlead.cli.logs import configure_logs
from fairlead.portal.http.audit import audit
from fairlead.portal.http.metrics import METRICS, PortalMetrics


def test_a_sign_in_is_counted_once_and_is_refused_only_if_that_is_its_result() -> None:
    app = web.Application()
    metrics = app[METRICS] = PortalMetrics()
    request = make_mocked_request("GET", "/", app=app)
    without = "done without groups"
    for what, result in (
        *(("browser", "done"), ("browser", without), ("code", "done"), ("code", without)),
        *(("cli", without), ("code", "refused"), ("/api/callback", "refused")),
    ):
        audit("sign-in", who="", what=what, result=result, request=request)
    counted = {
        sample.labels["result"]: sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name == "fairlead_portal_sign_ins_total"
    }
    assert counted == {"done": 3, "refused": 2}


def test_audit_lines_are_written_at_any_level_of_the_program() -> None:
    out = io.StringIO()
    before = structlog.get_config()
    try:
        configure_logs(json=True, level="error", file=out)
        audit("bind", who="oidc:ada", what="postgres")
    finally:
        structlog.configure(**before)
    line = json.loads(out.getvalue())
    assert (line["logger"], line["msg"]) == ("fairlead.portal.audit", "bind")
    assert (line["who"], line["level"]) == ("oidc:ada", "info")
