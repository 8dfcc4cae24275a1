"""The pipeline against what the original operator did, case by case.

Where Fairlead does otherwise, the case stands below with the reason. A case that stops differing
fails, so that the lists stay true.
"""

from __future__ import annotations

import pytest
from tests.unit.binding.golden import cases, differences

from fairlead.api.meta import JSON


_UNBOUND = "-then-again-then-unbind"

WANTED: dict[str, tuple[str, ...]] = {
    "a workload's own volume of the name is in the way, and neither replaced nor removed": (
        f"files-direct-secret-same-name-volume{_UNBOUND}",
    ),
    "each workload is handled as if the binding had no other": (
        "files-access-selector-deny-one",
        "env-access-selector-deny-one",
    ),
    "an entry that spec.env asks for and the binding lacks is waited for": (
        "spec-env-missing-key",
    ),
    "a container filter that matches nothing is ignored": ("spec-container-filter-no-match",),
    "unbind removes the variables of spec.env, and a second pass moves nothing": (
        f"spec-env-mapping-one-container{_UNBOUND}",
        f"spec-env-mapping-existing-env{_UNBOUND}",
        f"spec-env-mapping-root-set{_UNBOUND}",
        f"spec-env-mapping-root-set-on-one-of-two{_UNBOUND}",
        f"spec-env-mapping-env-empty-list{_UNBOUND}",
        f"spec-env-one{_UNBOUND}",
        f"spec-env-missing-key{_UNBOUND}",
        f"spec-env-same-var-twice{_UNBOUND}",
        f"spec-env-var-equals-key{_UNBOUND}",
        f"spec-env-overrides-existing{_UNBOUND}",
    ),
    "a null list is an empty one, and no null is written": (
        f"env-direct-secret-two-containers{_UNBOUND}",
        f"env-direct-secret-env-empty-list{_UNBOUND}",
        "files-direct-secret-env-null",
        "spec-env-mapping-env-null",
        f"spec-env-mapping-env-null{_UNBOUND}",
        "files-direct-secret-volumes-null",
        "spec-direct-secret-volumes-null",
        f"env-two-secrets{_UNBOUND}",
        f"env-provisioned{_UNBOUND}",
        f"env-annotations-lifecycle{_UNBOUND}",
        f"env-path-containerspath{_UNBOUND}",
        f"env-path-containerspath-plus-default{_UNBOUND}",
        f"env-path-both{_UNBOUND}",
        f"env-path-empty-bindingpath{_UNBOUND}",
        f"env-cwrm-cronjob{_UNBOUND}",
        f"env-selector-two-of-three{_UNBOUND}",
        "env-old-mapping-annotation",
    ),
    "a root from elsewhere is an error, where a relative mount path would be of no use": (
        "files-direct-secret-root-valuefrom",
        "spec-direct-secret-root-valuefrom",
        f"spec-direct-secret-root-valuefrom{_UNBOUND}",
        "spec-env-mapping-root-valuefrom",
        f"spec-env-mapping-root-valuefrom{_UNBOUND}",
    ),
    "a root that is empty or relative is an error, where no program finds its binding": (
        f"files-direct-secret-root-empty{_UNBOUND}",
        "spec-direct-secret-root-empty",
        "spec-env-mapping-root-empty",
        "files-direct-secret-root-relative",
        f"files-direct-secret-root-relative{_UNBOUND}",
        "spec-direct-secret-root-relative",
        f"spec-direct-secret-root-relative{_UNBOUND}",
        "spec-env-mapping-root-relative",
    ),
    "what a mode does not use is neither made nor complained about": (
        "env-direct-secret-env-not-a-list",
        "env-direct-secret-env-item-not-map",
        f"env-direct-secret-volumes-not-a-list{_UNBOUND}",
        "env-cwrm-nested-env",
        "env-cwrm-env-conflict",
    ),
    "a binding that is deleted does not become Ready": (
        f"spec-direct-secret-env-item-not-map{_UNBOUND}",
        "files-unbind-workload-missing",
        "files-unbind-never-bound",
        "env-unbind-workload-missing",
    ),
    "unbinding where no container is does not panic for ever": (
        f"files-direct-secret-containers-not-a-list{_UNBOUND}",
        f"files-path-containerspath-not-container{_UNBOUND}",
        f"files-path-secretpath{_UNBOUND}",
        f"files-path-secretpath-deep{_UNBOUND}",
        f"env-path-containerspath-map{_UNBOUND}",
        f"env-path-containerspath-not-container{_UNBOUND}",
        f"env-path-secretpath{_UNBOUND}",
        f"env-path-secretpath-existing{_UNBOUND}",
    ),
    "a binding name that is no volume name gets a volume name of its own": (
        f"files-spec-name-my.name{_UNBOUND}",
    ),
    "there is no library use without a uid": (f"files-no-uid{_UNBOUND}",),
    "an entry that is not base64 is an error, not dropped": (
        "files-two-secrets-one-bad-base64",
        "env-one-key-secret-bad-base64",
        "env-two-secrets-one-bad-base64",
    ),
    "a string from a Secret has the name the annotation gives it": (
        "files-secret-type-string-element-multi-node-path",
        "env-secret-type-string-element-multi-node-path",
        "env-cr-annotation-string-elem-secret",
    ),
    "what a superseded Secret or mode left on the workload is taken away": (
        "env-content-change-nulls-pruned",
        "env-switch-mode-nulls-pruned",
        "env-content-change-intermediate",
    ),
    "a Secret with annotations does not hide those after it": (
        "files-secret-with-binding-annotation",
        "env-secret-with-binding-annotation",
    ),
    "a spec that contradicts itself is refused": (
        "files-no-services",
        "env-selector-and-name",
    ),
    "a null at the annotated path is ValueNotFound, not a panic": (
        "files-cr-annotation-null-value",
        "env-cr-annotation-null-value",
    ),
    "matchExpressions count": (
        "files-selector-expressions-only",
        "env-selector-labels-and-expressions",
    ),
    "an old mapping that cannot be read is said, not ignored": (
        "files-old-mapping-annotation-bad-json",
        "env-old-mapping-annotation-bad-json",
    ),
    "spec.type alone is no binding: a service that is not ready is waited for": (
        "spec-type-override-secret-no-data",
        "spec-provisioned-no-status-with-type",
    ),
    "what unbinding leaves at a secretPath is told": ("files-path-both-then-again-then-unbind",),
    "InjectionReady is False where the server refuses the workload": (
        "files-fail-update-workload",
    ),
    "a CronJob needs no mapping": (
        "files-cwrm-cronjob-without-mapping",
        "spec-cwrm-cronjob-without",
    ),
    "spec.type overrides annotations too": (
        "spec-annotation-with-type-type-and-host",
        "spec-annotation-with-type-type-overridden-by-annotation",
    ),
}

MESSAGES = {
    "files-direct-secret-env-not-a-list",
    "spec-env-mapping-env-item-not-map",
    "files-direct-secret-mounts-not-a-list",
    f"spec-direct-secret-mounts-not-a-list{_UNBOUND}",
    "files-direct-secret-no-containers",
    "spec-direct-secret-no-containers",
    f"files-direct-secret-volumes-not-a-list{_UNBOUND}",
    f"spec-direct-secret-volumes-not-a-list{_UNBOUND}",
    "files-path-containerspath-not-container",
    "files-path-secretpath-conflict",
    "files-cwrm-no-versions",
    "files-cwrm-no-containers",
    "files-cwrm-path-missing",
    "env-path-containerspath-missing",
    "env-path-secretpath-conflict",
    "env-cwrm-no-versions",
    "env-cwrm-no-containers",
    "env-cwrm-path-scalar",
}
"""Same outcome; the text names object and path where the original prints Go values."""

WATCHED = {
    "files-selector-two-labels",
    "files-selector-empty",
    "files-selector-workload-starts-matching",
    "files-access-selector-allowed",
    "env-selector-two-of-three",
    "env-selector-empty",
    "env-access-selector-allowed",
    "spec-selector-two-of-three",
    f"spec-selector-two-of-three{_UNBOUND}",
}
"""Same outcome, without the repetition: workloads that come to match are watched for."""

_CASES = cases("pipeline")
_DIFFERENT = {name for names in WANTED.values() for name in names}


def _name(case: JSON) -> str:
    return str(case["id"]).removeprefix("pipeline-")


@pytest.mark.parametrize("case", _CASES, ids=_name)
def test_pipeline_does_what_the_original_did(case: JSON) -> None:
    found = differences(case)
    name = _name(case)
    aspects = {aspect for aspect, _ in found}
    if name in _DIFFERENT:
        assert found, "does not differ any more"
    elif name in MESSAGES:
        assert aspects == {"message"}, found
    elif name in WATCHED:
        assert aspects == {"retry"}, found
    else:
        assert not found


def test_every_listed_case_exists() -> None:
    assert {_name(case) for case in _CASES} >= _DIFFERENT | MESSAGES | WATCHED
