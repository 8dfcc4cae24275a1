"""An embedded Kubernetes API server for demos, tests and laptops.

A request comes in through ``http``; ``auth`` says who asks and whether they may; ``requests``
reads what is asked and answers it; a write goes through ``objects``, where admission, the kind's
strategy (``builtin``, or a custom resource's ``schema``) and the owners of fields (``patches``)
have their say, into ``storage``, an append log whose row ids are the resourceVersions. What is
stored is published to watches and to ``controllers``, which write in their turn. Each of these
wings imports those below it alone; import-linter has the order.
"""

from __future__ import annotations

from fairlead_sandbox.http.faults import Faults
from fairlead_sandbox.sandbox import Sandbox


__all__ = ["Faults", "Sandbox"]
