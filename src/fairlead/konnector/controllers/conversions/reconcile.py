"""Condition about conversion webhooks that do not answer, with the namespaces that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.conditions import Condition
from fairlead.api.definitions import CRDSpec
from fairlead.api.kubebind.conditions import CONVERSION_FAILING, KubeBindCondition
from fairlead.api.meta import Object
from fairlead.konnector import bounds
from fairlead.konnector.conversions import shown_url, withdrawal


WEBHOOK_FAILING = "WebhookFailing"


class FailingWebhook(msgspec.Struct, frozen=True):
    """A webhook that failed to convert; ``objects`` are namespaces that cannot end meanwhile."""

    crd: str
    url: str
    why: str
    objects: Sequence[str] = ()


class _NamespaceStatus(msgspec.Struct, frozen=True):
    conditions: list[Condition] | None = None


class _Namespace(msgspec.Struct, frozen=True):
    status: _NamespaceStatus | None = None


def reconcile(binding: str, failing: Sequence[FailingWebhook]) -> KubeBindCondition | None:
    """Return the condition of a binding with such webhooks, None without one."""
    if not failing:
        return None
    message = "; ".join(_message(binding, one) for one in failing)
    return KubeBindCondition(CONVERSION_FAILING, "True", reason=WEBHOOK_FAILING, message=message)


def failed_conversion(message: str, crd: CRDSpec) -> str:
    """Return the part of a server's message that tells of a kind's failed webhook, "" without one.

    The text is that of apiextensions-apiserver: "conversion webhook for GROUP/VERSION, Kind=KIND
    failed: WHY", where KIND is that of objects or of their list.
    """
    mark = f"conversion webhook for {crd.group}/"
    begin = message.find(mark)
    if begin < 0 or f"Kind={crd.names.kind}" not in message[begin:]:
        return ""
    return message[begin:]


def held_namespaces(namespaces: Iterable[Object], crd: CRDSpec) -> list[str]:
    """Return the names of namespaces whose deletion the webhook of a kind holds up."""
    return sorted(found.meta.name for found in namespaces if _is_held(found, crd))


def _is_held(namespace: Object, crd: CRDSpec) -> bool:
    if not namespace.meta.deleting:
        return False
    status = namespace.decode(_Namespace).status
    conditions = (status.conditions if status is not None else None) or []
    return any(
        condition.status == "True" and bool(failed_conversion(condition.message, crd))
        for condition in conditions
    )


def _message(binding: str, failing: FailingWebhook) -> str:
    ends = ""
    if failing.objects:
        names = ", ".join(failing.objects[: bounds.NAMED])
        more = len(failing.objects) - bounds.NAMED
        ends = f". It holds namespace {names}" + (f" and {more} more" if more > 0 else "")
    return (
        f"conversion webhook {shown_url(failing.url)} of {failing.crd} does not answer "
        f"correctly: {failing.why[: bounds.TEXT_CHARACTERS]}{ends}. Until it does, namespaces "
        f"may not terminate. Ask the provider to repair it; {withdrawal(binding, failing.url)} "
        "removes it, and then a version drops the fields that it does not have"
    )
