"""Amounts of memory and CPU in Kubernetes' form (``resource.Quantity``), such as 10m or 512Mi."""

from __future__ import annotations

import re
from decimal import Decimal


_SUFFIXES = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
# Without the exponents (1e3), signs and the units n and u of resource.Quantity: flags for Pods
# need none of them. The digits are bounded, since Decimal would keep any number of them.
_PATTERN = re.compile(rf"([0-9]{{1,15}}(?:\.[0-9]{{1,9}})?)({'|'.join(filter(None, _SUFFIXES))})?")
PATTERN = f"^{_PATTERN.pattern}$"
"""Regular expression of the quantities that :func:`parse_quantity` reads, for JSON schemas."""


def parse_quantity(text: str) -> Decimal:
    """Parse an amount in bytes or cores.

    Raises:
        ValueError: the text is no quantity.
    """
    match = _PATTERN.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not an amount: use for example 10m, 512Mi or 1.5")
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]
