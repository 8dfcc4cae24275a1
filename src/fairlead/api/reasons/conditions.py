"""State of an object by one of its conditions: the bad status of each type of condition.

If the status is the bad one, the state is that of the reason in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, Protocol

import msgspec

from fairlead.api.conditions import ConditionStatus
from fairlead.api.kbind import names as kbind
from fairlead.api.kubebind import conditions as kubebind
from fairlead.api.postgresaccess import EXPIRING, IN_PROGRESS, RECONCILING, STALLED, SUCCESS
from fairlead.api.postgresaccess.server import REACHABLE
from fairlead.api.reasons.kbind import KBIND
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.servicebinding import SERVICE_BINDING
from fairlead.api.servicebinding import common


class AnyCondition(Protocol):
    """Condition of Kubernetes or of kube-bind."""

    @property
    def type(self) -> str:
        """The aspect of the object, such as Ready."""

    @property
    def status(self) -> ConditionStatus:
        """Whether the condition holds."""

    @property
    def reason(self) -> str:
        """The reason in CamelCase; "" if there is none."""


class ConditionType(msgspec.Struct, frozen=True):
    """Type of conditions: its ``bad`` status, and the state if the reason is in no table."""

    name: str
    bad: Literal["True", "False"] = "False"
    state: State = "failed"


TABLES: Final = (KUBE_BIND, POSTGRES, SERVICE_BINDING, KBIND)

TYPES: Final[Mapping[str, ConditionType]] = MappingProxyType(
    {
        condition_type.name: condition_type
        for condition_type in (
            *(ConditionType(name, "True") for name in kubebind.WRONG_WHILE_TRUE),
            ConditionType(kubebind.CLEARED),
            ConditionType(kubebind.CONNECTED),
            ConditionType(kubebind.CONSUMER_CLUSTER),
            ConditionType(kubebind.CONSUMER_IN_SYNC),
            ConditionType(kubebind.CREDENTIALS_IN_USE),
            ConditionType(kubebind.EXPORTS_READY),
            ConditionType(kubebind.HEALTHY),
            ConditionType(kubebind.HEARTBEATING),
            ConditionType(kubebind.INFORMERS_SYNCED),
            ConditionType(kubebind.KONNECTORS),
            ConditionType(kubebind.NAMESPACE_READY),
            ConditionType(kubebind.PERMISSIONS_GRANTED),
            ConditionType(kubebind.PERMISSION_CLAIM),
            ConditionType(kubebind.PROVIDER_IN_SYNC),
            ConditionType(kubebind.READY),
            ConditionType(kubebind.SCHEMA_IN_SYNC),
            ConditionType(kubebind.SECRET_VALID),
            ConditionType(kubebind.SYNCED),
            ConditionType(kubebind.VALID_VERSION),
            ConditionType(kubebind.WITHOUT_STATUS),
            ConditionType(kbind.AUTO_BIND_FAILING, "True"),
            ConditionType(kbind.PERMISSION_DENIED, "True"),
            ConditionType(kbind.RELATED_FAILING, "True"),
            # It tells of an end, and Ready whether the login works.
            ConditionType(EXPIRING),
            ConditionType(REACHABLE),
            ConditionType(SUCCESS),
            ConditionType(IN_PROGRESS, "True", "waiting"),
            ConditionType(RECONCILING, "True", "waiting"),
            ConditionType(STALLED, "True"),
            ConditionType(common.COLLECTION_READY),
            ConditionType(common.INJECTION_READY),
            ConditionType(common.ROLLOUT_FAILING, "True"),
            ConditionType(common.SERVICE_AVAILABLE),
            # Kubernetes' own, of CRDs and of Deployments.
            ConditionType("Available"),
            ConditionType("Established", state="waiting"),
            ConditionType("KubernetesAPIApprovalPolicyConformant"),
            ConditionType("NamesAccepted"),
            ConditionType("NonStructuralSchema", "True"),
            ConditionType("ReplicaFailure", "True"),
            ConditionType("StorageMigrating", "True", "waiting"),
            ConditionType("Terminating", "True", "waiting"),
            # What operators have by habit, for services of any kind.
            ConditionType("Degraded", "True"),
            ConditionType("Failed", "True"),
        )
    }
)
"""Known types of conditions, by name."""

FACTS: Final = frozenset(
    {
        *(EXPIRING, kubebind.CONSUMER_CLUSTER, kubebind.CREDENTIALS_IN_USE),
        *(kubebind.KONNECTORS, kubebind.WITHOUT_STATUS),
    }
)
"""Types of Fairlead's that tell a name, a number or a time while they are True."""


def state_of(condition: AnyCondition) -> State:
    """Return the state of an object by one of its conditions.

    The status Unknown and types outside of :data:`TYPES` never count as ok. A type outside of it
    has the state of its reason, if a table has the reason.
    """
    if condition.status == "Unknown":
        return "unknown"
    condition_type = TYPES.get(condition.type)
    if condition_type is not None and condition.status != condition_type.bad:
        return "ok"
    state = next((one.state(condition.reason) for one in TABLES if condition.reason in one), None)
    if condition_type is None:
        # Nothing tells which status of an unknown type is the bad one.
        return state if state not in {None, "ok"} else "unknown"
    if state == "ok":
        # The condition was True before, and another part keeps it from being so now.
        return "waiting"
    return state or condition_type.state
