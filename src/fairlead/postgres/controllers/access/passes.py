"""A pass over one PostgresAccess: what was read, what was learnt, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import PasswordInfo, PostgresAccess, ServerInfo
from fairlead.postgres.controllers.access.reconcile import AccessStep, Facts, Failure
from fairlead.postgres.controllers.access.status import (
    WITHOUT_SECRET,
    Login,
    Outcome,
    expired,
    failed,
    generated,
    planned,
    renamed,
    success,
    suspended,
)
from fairlead.postgres.controllers.rules.wishes import names_of
from fairlead.postgres.controllers.servers.jobs import Job, Place
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.plan import Planned, Synced, Wanted
from fairlead.postgres.errors import AccessError, refusal


class Verified(NamedTuple):
    """What a server was left with by a pass that has read it again.

    The pass that follows at once on a new password need not ask for the same a second time.
    """

    place: Place
    wanted: Wanted
    done: Synced

    def holds(self, place: Place, wanted: Wanted) -> bool:
        """Whether the same is wanted there: not where it depends on what was granted before."""
        same = msgspec.structs.replace(wanted, ledger=self.wanted.ledger) == self.wanted
        return place == self.place and wanted.policy == "Authoritative" and same

    @property
    def synced(self) -> Synced:
        """What asking once more would come to: nothing is changed."""
        return msgspec.structs.replace(self.done, changed=False, created=False)


@dataclass(kw_only=True)
class Pass:
    """One reconciliation of one object."""

    found: Object
    access: PostgresAccess | None
    facts: Facts
    place: Place | None = None
    job: Job | None = None
    """What a server is to do before the pass can go on; then it is done."""
    step: AccessStep | None = None
    """Which of the steps the job is for."""
    password: str = field(default="", repr=False)
    login: str = ""
    """The role that the password is of."""
    iterations: int = ITERATIONS
    secret_uid: str = ""
    password_info: PasswordInfo | None = None
    synced: Synced | None = None
    verified: Verified | None = None
    plan: Planned | None = None
    expires_at: str = ""
    renamed: frozenset[str] = frozenset()
    """Roles that carry the claim of this access under another name."""

    unchanged: bool = False
    """Whether a suspended spec is known to ask for what its status tells of."""

    postponed: bool = False
    """Whether a new password is due that waits for an answer of the server."""

    denied: str = ""
    """Why what the role owns may not go to whom the spec names."""

    gone: bool = False
    """Whether the object has turned out to be gone."""

    def ask(self, step: AccessStep, job: Job) -> None:
        """Have the server do something before the pass goes on."""
        self.step, self.job = step, job

    def learn(self, **facts: object) -> None:
        """Add to what is known."""
        self.facts = msgspec.structs.replace(self.facts, **facts)

    @property
    def reached(self) -> Place:
        """The server; steps that need it come only after it was found."""
        if self.place is None:
            raise AccessError("ConnectionFailed", "the server has not been found yet")
        return self.place

    @property
    def decoded(self) -> PostgresAccess:
        """The object; steps that need it come only after it was decoded."""
        if self.access is None:
            raise AccessError("InvalidSpec", "the object could not be decoded")
        return self.access


def outcome_of(current: Pass) -> Outcome:
    """The outcome of a pass, from what it has learnt."""
    facts = current.facts
    if facts.excluded and facts.failure is None:
        username, *logins = names_of(current.decoded)
        which = f"{username}, or one of its logins {', '.join(logins)}," if logins else username
        return failed(
            Failure(
                "DatabaseSyncFailed",
                refusal(
                    "UserExcluded",
                    f"spec.username {which} is one of the operator's excluded users;"
                    " choose another",
                ),
            )
        )
    if facts.failure is not None:
        return failed(facts.failure)
    if facts.suspended:
        generation = current.found.meta.generation
        return suspended(current.decoded.status, generation, unchanged=current.unchanged)
    if facts.expired:
        return expired(current.expires_at)
    if current.plan is not None and not facts.approved:
        return planned(current.plan, facts.planning)
    is_new = facts.secret == "generated"  # noqa: S105
    return generated() if is_new and not is_first_and_read_again(current) else success()


def is_first_and_read_again(current: Pass) -> bool:
    """Whether the second look that a new password asks for would come to what is known already.

    Every pass reads the server again after it has written. An object that has said nothing so far
    is in progress as it was created, and so that need not be written first. Additive grants depend
    on what was granted before, which the next pass reads from the status of this one.
    """
    access = current.decoded
    is_first = not access.status.last_reconcile_state
    return is_first and current.synced is not None and access.spec.grants_policy == "Authoritative"


def login_of(current: Pass) -> Login | None:
    """What is known of the login, if this pass has brought it about."""
    synced = current.synced
    if synced is None or current.place is None:
        return None
    spec, endpoint = current.decoded.spec, current.place.endpoint
    kept = [WITHOUT_SECRET] if current.facts.keeping else []
    return Login(
        username=spec.username,
        secret="" if current.facts.keeping else spec.generated_secret,
        secret_uid=current.secret_uid,
        password=current.password_info,
        logins=synced.logins,
        server=ServerInfo(
            host=endpoint.public_host or endpoint.host,
            version=synced.server.version_text,
            system_identifier=synced.server.system_identifier,
        ),
        applied=_ledger(current, synced),
        group=synced.group or (current.decoded.status.group if synced.problems else ""),
        warnings=[*kept, *synced.warnings, *map(renamed, sorted(current.renamed))],
    )


def _ledger(current: Pass, synced: Synced) -> list[str]:
    """What was granted; while something stands in the way, also what may not be revoked yet."""
    before = current.decoded.status.applied_grants if synced.problems else []
    return [*synced.applied, *(one for one in before if one not in synced.applied)]
