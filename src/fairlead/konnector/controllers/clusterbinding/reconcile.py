"""Decides about one provider's ClusterBinding: rotated credentials, heartbeat, version.

The provider wants to read the version as a semantic version after a ``v``.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec

from fairlead.api.durations import format_duration
from fairlead.api.kubebind import (
    ClusterBinding,
    ClusterBindingStatus,
    SecretReference,
    kubeconfig_digest,
)
from fairlead.api.kubebind.conditions import (
    ANOTHER_KONNECTOR,
    CREDENTIALS_IN_USE,
    HEARTBEATING,
    SECRET_VALID,
    VALID_VERSION,
    KubeBindCondition,
    false,
    set_conditions,
    true,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.timestamps import format_time, parse_time
from fairlead.konnector.controllers.clusterbinding.peers import (
    Peers,
    condition,
    entries,
    learned,
)
from fairlead.konnector.options import HEARTBEAT_INTERVAL
from fairlead.konnector.policies.work import SecretKey


# A provider misses a konnector after twice the promised interval, which is four beats.
INTERVAL = HEARTBEAT_INTERVAL
BEAT = INTERVAL / 2
"""Time between two heartbeats that are sent."""

PROVIDER_SECRET_NOT_FOUND = "ProviderSecretNotFound"  # noqa: S105  a reason, no secret
PROVIDER_SECRET_INVALID = "ProviderSecretInvalid"  # noqa: S105  a reason, no secret
PARSE_ERROR = "ParseError"
UPDATE_FAILED = "ClusterBindingUpdateFailed"


class Rivalry(msgspec.Struct, frozen=True):
    """Signs of another konnector that writes the same ClusterBinding.

    ``stored`` is True if our version was stored at the last look, and ``lost`` has the times at
    which another replaced it lately. ``version`` is the other's, once the two took turns; "" for
    none.
    """

    stored: bool = False
    lost: tuple[datetime, ...] = ()
    version: str = ""


class HeartbeatState(msgspec.Struct, frozen=True):
    """Facts about a ClusterBinding, the kubeconfigs of both sides, and other konnectors.

    ``fault`` is what is wrong with the kubeconfig in the provider's Secret, "" if nothing is.

    A kubeconfig that is to replace another has a fault also when it was tried and does not work.
    ``unreadable`` is why the provider's Secret could not be read, "" if it could.
    ``consumer_secrets`` are the Secrets from which this connection was made, None if absent, by
    the key that holds it. ``kubeconfig`` is the one that this connection was made with.
    ``instance`` is this konnector's name among several, ``peers`` are the others.
    """

    binding: ClusterBinding
    provider_secret: Object | None
    consumer_secrets: dict[SecretKey, Object | None]
    fault: str
    version: str
    now: datetime
    unreadable: str = ""
    kubeconfig: bytes = b""
    rivalry: Rivalry = Rivalry()
    instance: str = "konnector"
    peers: Peers = Peers()


class CredentialsWrite(msgspec.Struct, frozen=True):
    """A Secret of the consumer to create (``old`` is None) or to replace."""

    old: Object | None
    body: JSON


class HeartbeatPlan(msgspec.Struct, frozen=True):
    """Secrets to write first, then the status; ``next_beat`` is in seconds.

    ``rivalry`` and ``peers`` replace the former ones once the status is written.
    """

    secrets: list[CredentialsWrite]
    status: ClusterBindingStatus
    next_beat: float
    rivalry: Rivalry = Rivalry()
    peers: Peers = Peers()


def reconcile(state: HeartbeatState) -> HeartbeatPlan:
    """Decide the status of the ClusterBinding and the content of the consumer's Secrets."""
    secret_valid = _secret_valid(state)
    writes = _secret_writes(state) if secret_valid.status == "True" else []
    old = state.binding.status
    version = konnector_version(state.version)
    rivalry = _rivalry(state, version or UNKNOWN)
    peers = learned(state.peers, state.instance, entries(old.conditions), state.now)
    roster = condition(peers, state.instance, state.now)
    if rivalry.version and (waits := _rival_lives(old, state.now)):
        # A konnector of ours keeps its entry, so that others see it; it leaves the rest to the
        # rival.
        status = _with_roster(old, roster, state.now) if peers.living else old
        return HeartbeatPlan(writes, status, waits, rivalry, peers)
    beat = _heartbeat(old.last_heartbeat_time, state.now)
    status = msgspec.structs.replace(
        old,
        consumer_secret_ref=_consumer_ref(state),
        heartbeat_interval=format_duration(INTERVAL),
        last_heartbeat_time=beat,
        konnector_version=version or UNKNOWN,
        conditions=set_conditions(
            old.conditions,
            secret_valid,
            _valid_version(state.version, version),
            *_credentials(state),
            roster,
            now=format_time(state.now),
            summary=True,
        ),
    )
    due = parse_time(beat) + BEAT - state.now
    paused = msgspec.structs.replace(rivalry, stored=True)
    # A second more, for a look that comes a moment too early would find the heartbeat fresh.
    wait = min(max(due.total_seconds(), 0.0), peers.due(state.now))
    return HeartbeatPlan(writes, status, wait + 1.0, paused, peers)


def _with_roster(
    old: ClusterBindingStatus, roster: KubeBindCondition, now: datetime
) -> ClusterBindingStatus:
    conditions = set_conditions(old.conditions, roster, now=format_time(now))
    return msgspec.structs.replace(old, conditions=conditions)


def another_konnector(version: str, namespace: str) -> KubeBindCondition:
    """Return the condition of every binding whose connection two konnectors fight over."""
    message = (
        f"another konnector ({version}) writes the provider's ClusterBinding "
        f"{namespace}/cluster too, and the two overwrite each other: stop one of them. This "
        "one does not write it while the other sends heartbeats"
    )
    return KubeBindCondition(
        ANOTHER_KONNECTOR, "True", reason="VersionsAlternate", message=message
    )


def _rivalry(state: HeartbeatState, ours: str) -> Rivalry:
    """Return the knowledge about another konnector after this look.

    A konnector that was replaced by us leaves its version once. One that takes the ClusterBinding
    back is running, and the fight would last for ever: both write it as soon as they see the
    other's version.
    """
    rivalry, version, now = state.rivalry, state.binding.status.konnector_version, state.now
    lost = tuple(moment for moment in rivalry.lost if now - moment < INTERVAL)
    if version == ours:
        return Rivalry(True, lost, rivalry.version if lost else "")
    if rivalry.stored and version:
        lost = (*lost, now)
    rival = version if rivalry.version or len(lost) > 1 else ""
    return Rivalry(False, lost, rival)


def _rival_lives(status: ClusterBindingStatus, now: datetime) -> float:
    """Return the seconds until another konnector's heartbeat is overdue; 0 if it is."""
    try:
        left = INTERVAL - (now - parse_time(status.last_heartbeat_time))
    except ValueError:
        return 0.0
    # The time is another machine's, whose clock may be ahead: no wait is longer than the interval.
    return max(min(left, INTERVAL).total_seconds(), 0.0)


def heartbeating(error: str) -> KubeBindCondition:
    """Return the condition of every binding of this connection after a write of the status."""
    if error:
        message = f"the provider's ClusterBinding cannot be updated: {error}"
        return false(HEARTBEATING, UPDATE_FAILED, message, severity="Warning")
    return true(HEARTBEATING)


def _secret_valid(state: HeartbeatState) -> KubeBindCondition:
    ref = state.binding.spec.kubeconfig_secret_ref
    where = f"the provider's Secret {ref.name}"
    if state.provider_secret is None:
        message = f"{where} does not exist in its namespace; the provider must restore it"
        if state.unreadable:
            message = f"{where} cannot be read: {state.unreadable}"
        return false(SECRET_VALID, PROVIDER_SECRET_NOT_FOUND, message, severity="Warning")
    if state.fault:
        message = f"the konnector does not use key {ref.key!r} of {where}: {state.fault}"
        return false(SECRET_VALID, PROVIDER_SECRET_INVALID, message, severity="Warning")
    return true(SECRET_VALID)


def _secret_writes(state: HeartbeatState) -> list[CredentialsWrite]:
    if state.provider_secret is None:
        return []
    source = state.provider_secret.to_dict()
    # The key is there: without it SecretValid is False, and nothing is written.
    kubeconfig = source["data"][state.binding.spec.kubeconfig_secret_ref.key]
    contents: dict[Key, dict[str, Any]] = {}
    for place in sorted(state.consumer_secrets):
        contents.setdefault(place.secret, {})[place.key] = kubeconfig
    secrets = {place.secret: found for place, found in state.consumer_secrets.items()}
    writes = []
    for key, data in contents.items():
        secret = secrets[key]
        if secret is None:
            writes.append(CredentialsWrite(None, _new_secret(key, source.get("type"), data)))
            continue
        body = secret.to_dict()
        old = body.get("data") or {}
        # Other keys may hold the kubeconfig of another provider.
        if old | data != old:
            writes.append(CredentialsWrite(secret, {**body, "data": old | data}))
    return writes


def _new_secret(key: Key, type_: str | None, data: dict[str, Any]) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "type": type_ or "Opaque",
        "data": data,
    }


def _consumer_ref(state: HeartbeatState) -> SecretReference | None:
    """Return the first of the Secrets, always the same one."""
    if not state.consumer_secrets:
        return state.binding.status.consumer_secret_ref
    first = min(state.consumer_secrets).secret
    return SecretReference(name=first.name, namespace=first.namespace)


def _heartbeat(last: str, now: datetime) -> str:
    """Return the time of the heartbeat to store: the stored one until the next is due."""
    # A time in the future was written by another clock, and is replaced, as one that is none.
    with suppress(ValueError):
        # By differences, since a sum may be beyond the last year that there is.
        if timedelta(0) <= now - parse_time(last) < BEAT:
            return last
    return format_time(now)


def _credentials(state: HeartbeatState) -> list[KubeBindCondition]:
    """Return the condition that the provider's newest credentials are in use.

    A rotation waits for it. The status is written with the very credentials that it reports. A
    connection with older ones reports none, so that two of them never take turns in writing.
    """
    if state.provider_secret is None or not state.kubeconfig or state.fault:
        return []
    key = state.binding.spec.kubeconfig_secret_ref.key
    data = state.provider_secret.to_dict().get("data") or {}
    if data.get(key) != base64.b64encode(state.kubeconfig).decode():
        return []
    message = kubeconfig_digest(state.kubeconfig)
    return [KubeBindCondition(CREDENTIALS_IN_USE, "True", reason="Current", message=message)]


def _valid_version(raw: str, version: str | None) -> KubeBindCondition:
    if version is not None:
        return true(VALID_VERSION)
    message = f"the konnector's version {raw!r} is not a semantic version: build it from a release"
    return false(VALID_VERSION, PARSE_ERROR, message, severity="Warning")


UNKNOWN = "unknown"
_MARK = "+kube-bind-"
_NUMBER = r"(?:0|[1-9]\d*)"
_PART = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""https://semver.org/spec/v2.0.0.html"""
_PYTHON = re.compile(
    rf"(?P<release>{_NUMBER}\.{_NUMBER}\.{_NUMBER})"
    r"(?:(?P<phase>a|b|rc)(?P<candidate>\d+))?(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?"
    r"(?:\+(?P<local>[0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*))?"
)
"""https://packaging.python.org/en/latest/specifications/version-specifiers/, with three numbers"""
_PHASES = {"a": "alpha", "b": "beta", "rc": "rc"}


def konnector_version(raw: str) -> str | None:
    """Convert a build's version into a semantic one after a ``v``; None if it has none.

    Python writes pre-releases in its own way: ``1.0.0rc1`` is ``v1.0.0-rc.1``. Of kube-bind's own
    builds ``v1.2.3+kube-bind-v0.6.0`` is the version after the mark, and ``v0.0.0-…`` is
    ``v0.0.0`` (ClusterBinding's ``status.konnectorVersion``).
    """
    marked = (raw.partition(_MARK)[2] or raw).removeprefix("v")
    if marked.startswith("0.0.0-"):
        return "v0.0.0"
    if _SEMANTIC.fullmatch(marked):
        return f"v{marked}"
    match = _PYTHON.fullmatch(marked)
    return f"v{_semantic(match)}" if match else None


def _semantic(match: re.Match[str]) -> str:
    before = [f"{_PHASES[match['phase']]}.{int(match['candidate'])}"] if match["phase"] else []
    before += [f"dev.{int(match['dev'])}"] if match["dev"] else []
    # A post-release comes after its release, which only build metadata leaves in its place.
    after = [f"post.{int(match['post'])}"] if match["post"] else []
    after += [match["local"]] if match["local"] else []
    return "".join(
        [
            match["release"],
            f"-{'.'.join(before)}" if before else "",
            f"+{'.'.join(after)}" if after else "",
        ]
    )
