from __future__ import annotations

from typing import Any

import pytest
from tests.support.kubebind import claim, export, kube

from fairlead.api.meta import JSON, Object
from fairlead.provider.konnectors import is_original, shortcoming


BEAT = "2026-05-01T11:57:00Z"
TELLS = {"type": "CredentialsInUse", "status": "True"}


def wrote(manager: str, *fields: str, at: str = "2026-05-01T11:00:00Z") -> JSON:
    written: JSON = {"f:status": {f"f:{field}": {} for field in fields}}
    return {"manager": manager, "time": at, "fieldsV1": written}


def binding(*entries: JSON, beat: str = BEAT, conditions: tuple[JSON, ...] = ()) -> Object:
    status = {
        "lastHeartbeatTime": beat,
        "konnectorVersion": "v0.8.1",
        "conditions": list(conditions),
    }
    return kube("ClusterBinding", "cluster", status=status, managedFields=list(entries))


BOTH = ("lastHeartbeatTime", "konnectorVersion")
OURS = wrote("kube-bind.io", *BOTH)
THEIRS = wrote("konnector", *BOTH)
LATER = "2026-05-01T11:30:00Z"


@pytest.mark.parametrize(
    ("found", "original"),
    [
        pytest.param(binding(OURS), False, id="ours"),
        pytest.param(binding(THEIRS), True, id="the original's"),
        pytest.param(
            binding(wrote("fairlead-provider", "conditions"), OURS), False, id="others wrote more"
        ),
        pytest.param(
            binding(wrote("kube-bind.io", "heartbeatInterval"), THEIRS, conditions=(TELLS,)),
            True,
            id="theirs after ours",
        ),
        pytest.param(
            binding(wrote("fairlead-provider", "conditions", *BOTH, at=LATER), OURS),
            False,
            id="ours, as old servers tell it",
        ),
        pytest.param(
            binding(wrote("fairlead-provider", "conditions", *BOTH, at=LATER), THEIRS),
            True,
            id="the original's, as old servers tell it",
        ),
        pytest.param(
            binding(
                wrote("kube-bind.io", "lastHeartbeatTime"),
                wrote("konnector", "konnectorVersion", at=LATER),
                conditions=(TELLS,),
            ),
            True,
            id="theirs took over, and the heartbeat is still fresh",
        ),
        pytest.param(
            binding(
                wrote("konnector", "lastHeartbeatTime"),
                wrote("kube-bind.io", "konnectorVersion", at=LATER),
            ),
            False,
            id="ours took over, and the heartbeat is still fresh",
        ),
        pytest.param(binding(beat=""), False, id="none yet"),
        pytest.param(binding(), True, id="nobody says who wrote, and it does not tell"),
        pytest.param(binding(conditions=(TELLS,)), False, id="nobody says, but it tells"),
        pytest.param(kube("ClusterBinding", "cluster"), False, id="no status"),
    ],
)
def test_whose_konnector_gave_the_last_heartbeat(found: Object, original: bool) -> None:
    assert is_original(found) is original


ALL = claim("secrets", labelSelector={})
WIDGETS = "widgets.example.org"


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        pytest.param({}, "", id="namespaced, prefixed"),
        pytest.param({"permissionClaims": [ALL]}, "", id="with claims"),
        pytest.param({"isolation": "None", "permissionClaims": [ALL]}, "", id="namespaced, none"),
        pytest.param({"isolation": "Namespaced"}, WIDGETS, id="namespaced, namespaced"),
        pytest.param(
            {"isolation": "Namespaced", "permissionClaims": [ALL]},
            WIDGETS,
            id="namespaced, namespaced, with claims that work",
        ),
        pytest.param({"informerScope": "Cluster"}, "", id="cluster, without claims"),
        pytest.param(
            {"informerScope": "Cluster", "permissionClaims": [ALL]}, "secrets.core", id="cluster"
        ),
        pytest.param(
            {"informerScope": "Cluster", "isolation": "Namespaced", "permissionClaims": [ALL]},
            "secrets.core",
            id="cluster, namespaced",
        ),
    ],
)
def test_where_an_original_konnector_lacks_rights(spec: Any, missing: str) -> None:
    given = export(**spec)
    told = shortcoming(binding(THEIRS), given, lambda _name: False)
    assert (f"it watches {missing} in all namespaces" in told) is bool(missing)
    assert ("(v0.8.1)" in told and "--original-konnectors" in told) is bool(missing)
    assert not shortcoming(binding(THEIRS), given, lambda _name: True)
    assert not shortcoming(binding(OURS), given, lambda _name: False)
