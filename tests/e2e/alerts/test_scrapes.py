"""What programs serve is what the page of metrics says, and what the dashboard shows."""

from __future__ import annotations

import subprocess
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml
from hack.dashboard import ROWS, expressions
from hack.metrics import parts
from tests.support.alerts import RULES, assert_well, at_work, promtool

from fairlead.binding import app
from fairlead.binding.manifests import manifests
from fairlead.binding.options import DEFAULT_NAMESPACE, AdmissionOptions
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.programs import consumer_programs, provider_programs
from fairlead_sandbox import Sandbox


pytestmark = pytest.mark.extended


async def test_programs_serve_what_the_page_says_and_nothing_fires(
    stack: AsyncExitStack,
) -> None:
    plane = await stack.enter_async_context(Sandbox(name="both"))
    admin = await stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))
    hooks = AdmissionOptions(
        address="127.0.0.1:0", hosts=("127.0.0.1",), namespace=DEFAULT_NAMESPACE
    )
    konnector, binding = consumer_programs()
    binding = msgspec.structs.replace(
        binding,
        manifests=manifests(image="fairlead", webhooks=True),
        build=partial(app.build, webhooks=hooks),
    )
    served: set[str] = set()
    for program in (*provider_programs([]), konnector, binding):
        scraped = await stack.enter_async_context(at_work(admin, program))
        served |= await scraped.served()
        await assert_well(await scraped.scrape())
    said = {
        # A counter's type is told without the end of its name by one form alone.
        family.name + ("_total" if family.type == "counter" else "")
        for part in parts()
        if "serve" not in part.title
        for collector in part.collectors
        for family in collector.collect()
    }
    assert served == said


def test_expressions_of_the_dashboard_can_be_read(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(expressions())]
    assert len(rules) > len(ROWS)
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [promtool(), "check", "rules", str(file), *map(str, RULES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
