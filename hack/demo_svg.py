"""Plays the demo and writes its last screen to docs/demo.svg."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from pathlib import Path

from rich.console import Console

from fairlead.cli.logs import configure_logs
from fairlead.demo.play import play
from fairlead.demo.screen import LiveScreen, summary


def main() -> int:
    """Play, save, and say whether the story held: 0 or 1."""
    configure_logs(json=True, file=io.StringIO())
    console = Console(record=True, width=110, force_terminal=True, highlight=False)
    report = asyncio.run(play(LiveScreen(console, spin=False)))
    console.print(summary(report, console))
    target = Path(__file__).parents[1] / "docs" / "demo.svg"
    svg = console.export_svg(title="fairlead demo")
    # The page that shows it shall load nothing from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!-- .*? -->\n?", "", svg).replace("Fira Code", "ui-monospace")
    target.write_text(svg)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
