"""An embedded Kubernetes API server for demos, tests and laptops.

``http`` receives a request. ``auth`` authenticates its user and checks the user's rights.
``requests`` finds the resource and the handler. A write goes through ``objects``: admission, the
kind's strategy (``builtin``, or the ``schema`` of a custom resource) and the owners of fields
(``patches``). It ends in ``storage``, an append log whose row ids are the resourceVersions. Stored
changes are published to watches and to ``controllers``, which write in turn. Each package imports
only those below it; import-linter has the order.
"""

from __future__ import annotations

from fairlead_sandbox.http.faults import Faults
from fairlead_sandbox.sandbox import Sandbox


__all__ = ["Faults", "Sandbox"]
