"""What a command imports before it works."""

from __future__ import annotations

import subprocess
import sys


def test_a_sandbox_starts_without_what_clients_and_controllers_need() -> None:
    code = """
import sys
import fairlead.cli
import fairlead.cli.sandbox
import fairlead.sandbox
loaded = {name for name in sys.modules if name.startswith("fairlead.")}
print(*sorted({".".join(name.split(".")[:2]) for name in loaded}))
print(*sorted({"structlog", "prometheus_client", "rich", "psycopg"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours, others = done.stdout.splitlines()
    assert ours == "fairlead.api fairlead.cli fairlead.garbage fairlead.process fairlead.sandbox"
    assert not others
