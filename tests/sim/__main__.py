"""``python -m tests.sim``: seeds, one seed with its trace, kept plans, planted faults."""

from __future__ import annotations

from tests.sim import entropy


# Before anything else is imported that takes a clock from the standard library.
entropy.install()

import sys  # noqa: E402

from tests.sim import command, finding  # noqa: E402


if __name__ == "__main__":
    if sys.argv[1:2] == ["find"]:
        raise SystemExit(finding.main(sys.argv[2:]))
    raise SystemExit(command.main())
