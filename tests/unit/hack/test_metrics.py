"""What is said of metrics, alerts and the dashboard is what the programs have."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from hack.dashboard import VARIABLES, dashboard, expressions
from hack.metrics import page, series

from fairlead.cli import main


ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
_NAMES = re.compile(
    r"\b(?:fairlead|controller_runtime|workqueue|leader_election|process|rest_client)_\w+"
)


def rules() -> list[Any]:
    """All alerts, each as its file has it."""
    return [
        pytest.param(rule, id=rule["alert"])
        for file in sorted((ROOT / "config" / "alerts").glob("*.yaml"))
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ]


async def test_the_page_of_metrics_is_that_of_the_collectors() -> None:
    told = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert told == await page(), "python -m hack.metrics > docs/metrics.md"


def test_the_dashboard_is_that_of_the_program() -> None:
    told = (ROOT / "config" / "dashboards" / "fairlead.json").read_text(encoding="utf-8")
    assert told == dashboard(), "python -m hack.dashboard > config/dashboards/fairlead.json"


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(dashboard())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


async def test_the_dashboard_shows_series_that_there_are() -> None:
    known = await series()
    shown = {name for expr in expressions() for name in _NAMES.findall(expr)}
    assert shown
    assert shown <= known


async def test_a_variable_chooses_series_that_have_its_label() -> None:
    """A series without the label would vanish from its panel as soon as one chooses."""
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", await page(), re.MULTILINE)
    labels = {name: set(re.findall(r"`(\w+)`", text)) for name, text in rows}
    variables = {variable["name"]: variable for variable in of_dashboard("templating")["list"]}
    assert set(variables) == {"datasource", *VARIABLES}
    chosen = 0
    for panel in json.loads(dashboard())["panels"]:
        for target in panel.get("targets", []):
            assert 'namespace=~"$namespace"' in target["expr"], panel["title"]
            for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", target["expr"]):
                for label, variable in re.findall(r'(\w+)=~"\$(\w+)"', matchers):
                    assert variable in variables
                    if variable == "namespace":
                        continue
                    chosen += 1
                    family = re.sub("_bucket$", "", name)
                    assert label in labels[family], (panel["title"], name)
    assert chosen > 10


def of_dashboard(part: str) -> Any:
    return json.loads(dashboard())[part]


def test_the_first_row_says_whether_all_is_well() -> None:
    row, *panels = of_dashboard("panels")
    assert row["type"] == "row"
    for panel in panels[:7]:
        assert panel["gridPos"]["y"] == 1
        (target,) = panel["targets"]
        # Nothing to count is well too.
        assert target["expr"].endswith(" or vector(0)")
        colours = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [step["color"] for step in colours] == (
            ["red", "green"] if panel["title"] == "Processes with metrics" else ["green", "red"]
        )
    assert panels[7]["type"] == "row"


@pytest.mark.parametrize("rule", rules())
async def test_an_alert_is_about_series_that_there_are(rule: dict[str, Any]) -> None:
    named = set(_NAMES.findall(rule["expr"]))
    assert named
    assert named <= await series()


@pytest.mark.parametrize("rule", rules())
def test_an_alert_says_what_is_broken_and_leads_to_a_page(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    page = ROOT / rule["annotations"]["runbook_url"]
    assert page == RUNBOOKS / f"{rule['alert']}.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {rule['alert']}\n")
    for part in ("## What is broken", "## How to see it", "## How to fix it"):
        assert f"\n{part}\n" in text
    # It names a series that the alert is about.
    assert set(_NAMES.findall(rule["expr"])) & set(_NAMES.findall(text))


def test_each_page_is_of_an_alert_and_each_alert_is_seen_to_fire() -> None:
    alerts = {rule.id for rule in rules()}
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == alerts
    tests = [
        *(ROOT / "tests" / "e2e" / "alerts").glob("test_*.py"),
        ROOT / "tests" / "integration" / "portal" / "test_alerts.py",
    ]
    tried = "".join(path.read_text(encoding="utf-8") for path in tests)
    assert {alert for alert in alerts if f'"{alert}"' in tried} == alerts


def commands() -> list[str]:
    """Commands of ours that the pages tell people to run."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(RUNBOOKS.glob("*.md")))
    found = {
        re.split(r"\s\||\.\.\.", one)[0].strip()
        for text in texts
        for one in re.findall(r"(?:^    |`)(fairlead [^`\n]+)", text, re.MULTILINE)
    }
    return sorted(found)


@pytest.mark.parametrize("line", commands())
def test_a_page_names_commands_and_flags_that_there_are(line: str) -> None:
    command: click.Command = main
    context = click.Context(main)
    words = shlex.split(line)[1:]
    while words and isinstance(command, click.Group):
        name, *words = words
        inner = command.get_command(context, name)
        assert inner is not None, name
        command, context = inner, click.Context(inner, parent=context)
    flags = {flag for one in command.get_params(context) for flag in one.opts}
    assert {word for word in words if word.startswith("-")} <= flags
