"""``python -m tests.sim``: seeds, one seed with its trace, kept plans, planted faults."""

from __future__ import annotations

from tests.sim import entropy


# Before anything else is imported that takes a clock from the standard library.
entropy.install()

from tests.sim.command import main  # noqa: E402


if __name__ == "__main__":
    raise SystemExit(main())
