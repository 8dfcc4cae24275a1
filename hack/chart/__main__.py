"""Writes the chart's generated files: ``python -m hack.chart``."""

from __future__ import annotations

from hack.chart.files import ROOT, files


if __name__ == "__main__":
    for path, text in files().items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(path)
