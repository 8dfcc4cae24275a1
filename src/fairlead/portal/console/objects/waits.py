"""The provider's end of an object's chain: the object itself, and the role of an access.

The links are those of ``fairlead explain``. The provider sees only its own side, and not objects
that are still only in the consumer's cluster.
"""

from __future__ import annotations

from fairlead.api.links import Link
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.verdict import Judgement
from fairlead.explain.chains import Chain, join
from fairlead.postgres.commands.links import role_by_status


def provider_chain(obj: Object, verdict: Judgement) -> Chain:
    """Return the provider's links of an object: itself, and the role of a PostgresAccess."""
    subject = f"{obj.kind} {obj.key}"
    link = Link(
        name="provider",
        object=subject,
        state=verdict.state,
        about=verdict.message or verdict.reason or ("is Ready" if verdict.state == "ok" else ""),
        reason=verdict.reason,
        remedy=verdict.remedy,
        since=verdict.since,
    )
    group = obj.api_version.partition("/")[0]
    if (group, obj.kind) != (POSTGRESACCESSES.group, POSTGRESACCESSES.kind):
        return join(subject, [link])
    return join(subject, [link, role_by_status(obj)])
