"""Writes a decision about copies of another cluster, and waits until the konnector acts on it."""

from __future__ import annotations

from typing import Literal

from fairlead.api.kubebind import (
    ANNOTATION_HELD_COPIES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APIServiceBinding,
)
from fairlead.api.kubebind.conditions import COPIES_HELD, get_condition
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.client.lookups import WaitTimeout, find, wait_for
from fairlead.konnector.commands.readiness import WaitOptions
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.policies.holding import KEEP, ClusterHold, discard, recorded_cluster


Copies = Literal["", "keep", "discard"]
"""Decision about copies of another cluster without an object here; "" leaves it open."""


async def settle_copies(waiting: WaitOptions, name: str, copies: Copies) -> None:
    """Write the decision about a binding's held copies and wait for it, or report it as open.

    Raises:
        BindError: the konnector has not done it in time; what was said stays said.
        ClientError: a server refused or cannot be reached.
    """
    if waiting.provider is None:
        return
    namespace = waiting.provider.namespace
    async with Client(waiting.provider, user_agent="fairlead-bind") as provider:
        export = await find(provider, APISERVICEEXPORTS, name, namespace)
        # The uid of kube-system stands for a cluster, here as in the konnector's record.
        system = await find(waiting.client, NAMESPACES, "kube-system")
        hold = ClusterHold(
            recorded=recorded_cluster(export), cluster=system.meta.uid if system else ""
        )
        if not hold.foreign:
            if copies:
                waiting.progress(f"no copies of APIServiceBinding {name} are held")
            return
        if not copies:
            waiting.progress(f"{COPIES_HELD} of APIServiceBinding {name}: {_message(hold)}")
            return
        value = KEEP if copies == "keep" else discard(hold.recorded)
        annotation = {"metadata": {"annotations": {ANNOTATION_HELD_COPIES: value}}}
        await waiting.client.merge_patch(APISERVICEBINDINGS, name, "", annotation)
        waiting.progress(
            f"set the decision about the held copies of APIServiceBinding {name}: {value}"
        )
        await _recorded(waiting, provider, name, hold.cluster)


async def _recorded(waiting: WaitOptions, provider: Client, name: str, cluster: str) -> None:
    def missing(export: Object | None) -> str:
        if export is None or recorded_cluster(export) == cluster:
            return ""
        return "it still records the other cluster"

    try:
        await wait_for(
            provider,
            APISERVICEEXPORTS,
            name,
            provider.config.namespace,
            until=missing,
            timeout=waiting.deadline.left(),
        )
    except WaitTimeout as error:
        binding = await find(waiting.client, APISERVICEBINDINGS, name)
        conditions = binding.decode(APIServiceBinding).status.conditions if binding else ()
        condition = get_condition(conditions, COPIES_HELD)
        text = f": {condition.message}" if condition is not None else ""
        raise BindError(
            f"the copies are still held ({error}), and the konnector continues by itself{text}"
        ) from None


def _message(hold: ClusterHold) -> str:
    return hold.condition(None).message
