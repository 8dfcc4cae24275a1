"""Names of the Secrets that are generated for bindings: ``BINDING-DIGEST``.

That is the form of Service Binding Operator, whose Secrets keep their names.
"""

from __future__ import annotations

import hashlib
import re


_MOST = 253
"""Longest name of a Secret, in characters."""
_DIGEST = re.compile(r"-[0-9a-f]{8}")


def generated_name(binding: str, digest: str) -> str:
    """Return the name of a Secret, for eight hexadecimal digits that change with its content.

    A binding's name that leaves no room for them is shortened, and told apart by a digest of it.
    """
    longest = _MOST - 1 - len(digest)
    if len(binding) > longest:
        own = hashlib.sha256(binding.encode()).hexdigest()[:8]
        binding = f"{binding[: longest - 9].rstrip('.-')}-{own}"
    return f"{binding}-{digest}"


def is_generated(secret: str, binding: str) -> bool:
    """Whether a Secret's name is one that is generated for a binding."""
    return bool(_DIGEST.fullmatch(secret[-9:]) and secret == generated_name(binding, secret[-8:]))
