"""Installs CustomResourceDefinitions, and waits until the server has established them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from fairlead.api.kubebind import ANNOTATION_BOUND_BY, binding_of_crd
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import limits
from fairlead.client.errors import AlreadyExists, ClientError, Conflict, Forbidden, NotFound
from fairlead.runtime import delays


if TYPE_CHECKING:
    from fairlead.client import Client


_log = structlog.get_logger(logger_name="fairlead.runtime.crds")


class CRDError(ClientError):
    """A CRD was not written or not established; the text names it and the reason."""


async def install_crds(
    client: Client,
    crds: Sequence[JSON],
    *,
    timeout: float = limits.ESTABLISHED_SECONDS,  # noqa: ASYNC109
) -> None:
    """Create or update each CRD and wait until the server has established all.

    A CRD that is as wanted already is not written. Labels and annotations of others stay. Where
    kube-bind brings one of them, none is written.

    Raises:
        CRDError: a CRD was not established within ``timeout`` seconds, its names are taken, or
            this is a consumer's cluster, whose provider serves its objects.
        ApiError: the server refused, for example because of missing rights.
    """
    # All are written before one is waited for: the server establishes them side by side.
    there = [await _live(client, crd["metadata"]["name"]) for crd in crds]
    for crd, live in zip(crds, there, strict=True):
        await _write(client, crd, live)
    for crd in crds:
        await _established(client, crd["metadata"]["name"], timeout)
    client.discovery.invalidate()


async def refuse_bound_crds(client: Client, crds: Sequence[JSON]) -> None:
    """Raise if kube-bind brings one of these CRDs to the cluster.

    A caller who may not read CRDs is taken at its word.

    Raises:
        CRDError: this is a consumer's cluster, whose provider serves the objects of a CRD.
        ClientError: the server cannot be reached.
    """
    with suppress(Forbidden):
        for crd in crds:
            await _live(client, crd["metadata"]["name"])


async def _live(client: Client, name: str) -> Object | None:
    """Return a CRD, None if there is none.

    Raises:
        CRDError: kube-bind brings it.
    """
    try:
        live = await client.get(CUSTOMRESOURCEDEFINITIONS, name)
    except NotFound:
        return None
    if binding := binding_of_crd(live.meta):
        raise CRDError(
            f"APIServiceBinding {binding} brings CRD {name}, so this is a consumer's cluster, "
            "and the provider serves the objects: run this program in the provider's cluster. "
            f"Here `fairlead bindings {binding}` shows their state. If that binding is gone "
            f"for good, remove annotation {ANNOTATION_BOUND_BY} from the CRD"
        )
    return live


async def _write(client: Client, crd: JSON, live: Object | None) -> None:
    name: str = crd["metadata"]["name"]
    for attempt in range(limits.CRD_ATTEMPTS):
        if attempt:
            live = await _live(client, name)
        if live is None:
            try:
                await client.create(CUSTOMRESOURCEDEFINITIONS, crd)
            except AlreadyExists:
                # Another replica was faster: what it has written is looked at.
                continue
            _log.info("CRD created", crd=name)
            return
        if not isinstance(live.to_dict().get("spec"), dict):
            raise CRDError(f"CRD {name}: {client.config.server} answers with one without a spec")
        body = merged(live, crd)
        if body is None:
            return
        try:
            await client.update(CUSTOMRESOURCEDEFINITIONS, body)
        except (Conflict, NotFound):
            continue
        _log.info("CRD updated", crd=name)
        return
    raise CRDError(f"CRD {name}: others keep changing it; stop them and start again")


def merged(live: Object, crd: JSON) -> JSON | None:
    """Return the live CRD with the wanted content, or None if it has it already.

    A version that ``status.storedVersions`` names stays, and is not served any more: the server
    refuses to remove a version in which objects may be stored.
    """
    body = live.to_dict()
    spec = {**crd["spec"], "versions": [*crd["spec"]["versions"], *_still_stored(body, crd)]}
    before = body["metadata"]
    metadata = dict(before)
    for field in ("labels", "annotations"):
        if crd["metadata"].get(field):
            metadata[field] = {**before.get(field, {}), **crd["metadata"][field]}
    # Compared with the server's defaults filled in, or every start would write each CRD.
    if metadata == before and _defaulted(body["spec"]) == _defaulted(spec):
        return None
    return {**body, "metadata": metadata, "spec": spec}


def _still_stored(live: JSON, crd: JSON) -> list[JSON]:
    stored = (live.get("status") or {}).get("storedVersions") or []
    versions = {version["name"] for version in crd["spec"]["versions"]}
    return [
        {**version, "served": False, "storage": False}
        for version in live["spec"]["versions"]
        if version["name"] in stored and version["name"] not in versions
    ]


def _defaulted(spec: JSON) -> JSON:
    """Return the spec with the server's defaults (apiextensions.k8s.io/v1)."""
    names = spec["names"]
    return {
        **{name: value for name, value in spec.items() if name != "preserveUnknownFields"},
        "conversion": spec.get("conversion") or {"strategy": "None"},
        "names": {
            **names,
            "singular": names.get("singular") or names["kind"].lower(),
            "listKind": names.get("listKind") or f"{names['kind']}List",
        },
    }


async def _established(client: Client, name: str, seconds: float) -> None:
    reason = "the server has not answered"
    try:
        async with asyncio.timeout(seconds):
            for looks in itertools.count():
                reason = _obstacle(await client.get(CUSTOMRESOURCEDEFINITIONS, name))
                if not reason:
                    return
                await asyncio.sleep(delays.CRD_ESTABLISHED.delay(looks))
    except TimeoutError:
        raise CRDError(f"CRD {name} is not established after {seconds:g} s: {reason}") from None


def _obstacle(crd: Object) -> str:
    conditions: list[JSON] = crd.to_dict().get("status", {}).get("conditions") or []
    by_type = {condition["type"]: condition for condition in conditions}
    names = by_type.get("NamesAccepted", {})
    if names.get("status") == "False":
        raise CRDError(
            f"CRD {crd.meta.name}: its names are not accepted: {names.get('message', '')}"
        )
    established = by_type.get("Established", {})
    if established.get("status") == "True":
        return ""
    return str(established.get("message") or "no Established condition yet")
