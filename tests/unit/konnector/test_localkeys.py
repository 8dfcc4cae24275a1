"""Labels and annotations that stay where they were set: which they are, and which cross anyway."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, object_from_dict
from fairlead.konnector.policies.localkeys import LocalMetadataKeys


INSTANCE = {"app.kubernetes.io/instance": "shop"}
HELM = {"app.kubernetes.io/managed-by": "Helm"}
TRACKED = {"argocd.argoproj.io/tracking-id": "shop:example.org/Thing:shop/db"}


def crossing(
    keys: LocalMetadataKeys,
    labels: dict[str, str],
    annotations: dict[str, str] | None = None,
    named: frozenset[str] = frozenset(),
    **body: Any,
) -> tuple[JSON, JSON]:
    metadata = {"name": "db", "labels": labels, "annotations": annotations or {}}
    obj = object_from_dict({"kind": "Thing", "metadata": metadata, **body})
    found = keys.metadata(obj, named)
    return dict(found.labels), dict(found.annotations)


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({}, TRACKED, id="argo-cd"),
        pytest.param({"argocd.argoproj.io/instance": "shop"}, {}, id="argo-cd-by-its-own-label"),
        pytest.param({"kustomize.toolkit.fluxcd.io/name": "shop"}, {}, id="flux-kustomization"),
        pytest.param({"helm.toolkit.fluxcd.io/name": "shop"}, {}, id="flux-helm"),
        pytest.param(HELM, {"meta.helm.sh/release-name": "shop"}, id="helm"),
        pytest.param({"applyset.kubernetes.io/part-of": "x"}, {}, id="applyset"),
        pytest.param({"kapp.k14s.io/app": "1"}, {"kapp.k14s.io/identity": "v1"}, id="kapp"),
        pytest.param({}, {"config.k8s.io/owning-inventory": "x"}, id="kpt"),
        pytest.param({"velero.io/exclude-from-backup": "true"}, {}, id="velero"),
    ],
)
@pytest.mark.parametrize("instance", [{}, INSTANCE], ids=["alone", "with-instance"])
def test_marks_of_delivery_tools_stay(
    labels: dict[str, str], annotations: dict[str, str], instance: dict[str, str]
) -> None:
    mine = {"team": "shop", **instance, **labels}
    kept = crossing(LocalMetadataKeys(), mine, {"note": "kept", **annotations})
    assert kept == ({"team": "shop"}, {"note": "kept"})


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(INSTANCE, id="an-instance-alone-is-no-mark"),
        pytest.param({"app.kubernetes.io/managed-by": "fairlead-postgres"}, id="another-manager"),
        pytest.param({"argocd.argoproj.io.example.org/x": "1"}, id="another-prefix"),
        pytest.param({"meta.helm.sh": "1"}, id="a-name-without-prefix"),
    ],
)
def test_what_only_looks_like_a_mark_crosses(labels: dict[str, str]) -> None:
    assert crossing(LocalMetadataKeys(), labels) == (labels, {})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"selector": {"matchLabels": INSTANCE}}, id="match-labels"),
        pytest.param(
            {"podSelector": {"matchExpressions": [{"key": "app.kubernetes.io/instance"}]}},
            id="match-expressions",
        ),
        pytest.param({"selector": INSTANCE}, id="map"),
        pytest.param({"parts": [{"deep": {"selector": INSTANCE}}]}, id="deep"),
    ],
)
def test_a_label_that_the_objects_own_selector_names_crosses(spec: JSON) -> None:
    assert crossing(LocalMetadataKeys(), {**INSTANCE, **HELM}, spec=spec) == (INSTANCE, {})
    # A status or an annotation selects nothing.
    assert crossing(LocalMetadataKeys(), {**INSTANCE, **HELM}, status=spec) == ({}, {})


def test_a_label_that_a_claim_names_crosses() -> None:
    named = frozenset(HELM)
    assert crossing(LocalMetadataKeys(), {**INSTANCE, **HELM}, TRACKED, named) == (HELM, {})


MINE = {"mine.example.org/x": "1"}


@pytest.mark.parametrize(
    ("more", "fewer", "labels", "kept"),
    [
        pytest.param(["mine.example.org/*"], [], {**MINE, **INSTANCE}, {}, id="more-by-prefix"),
        pytest.param(["mine.example.org/x"], [], MINE, {}, id="more-by-key"),
        pytest.param(["mine.example.org/x=1"], [], MINE, {}, id="more-by-value"),
        pytest.param(["mine.example.org/x=2"], [], MINE, MINE, id="another-value"),
        pytest.param([], ["app.kubernetes.io/managed-by"], HELM, HELM, id="fewer-by-key"),
        pytest.param([], ["app.kubernetes.io/*"], HELM, HELM, id="fewer-by-prefix"),
        pytest.param([], ["*"], {**HELM, **INSTANCE}, {**HELM, **INSTANCE}, id="none"),
        pytest.param(
            [], ["app.kubernetes.io/instance"], {**HELM, **INSTANCE}, INSTANCE, id="the-instance"
        ),
        pytest.param(["team"], ["team"], {"team": "x"}, {"team": "x"}, id="what-crosses-wins"),
    ],
)
def test_flags_have_more_or_fewer_stay(
    more: list[str], fewer: list[str], labels: dict[str, str], kept: dict[str, str]
) -> None:
    assert crossing(LocalMetadataKeys.of(more, fewer), labels)[0] == kept


@pytest.mark.parametrize("pattern", ["", "a b", "*/x", "UPPER_case..org/*", "a/b/c", "a=b=c d"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not KEY, PREFIX"):
        LocalMetadataKeys.of([pattern])
    with pytest.raises(ValueError, match="is not KEY, PREFIX"):
        LocalMetadataKeys.of((), [pattern])
