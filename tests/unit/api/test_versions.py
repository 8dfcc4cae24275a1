"""Fields that a version takes from objects of another, and the version that takes none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.api.versions import (
    FIELDS,
    KindVersion,
    KindVersions,
    Lossless,
    crd_versions,
    lossless,
    lost_fields,
)
from fairlead_sandbox.schema.objects.prune import compile_pruner


TEXT: JSON = {"type": "string"}
ANY: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED: JSON = {"type": "object", "x-kubernetes-embedded-resource": True}


def of(**properties: JSON) -> JSON:
    return {"type": "object", "properties": properties}


def spec(**properties: JSON) -> JSON:
    return of(spec=of(**properties))


def listed(items: JSON) -> JSON:
    return {"type": "array", "items": items}


def mapped(values: JSON | bool) -> JSON:
    return {"type": "object", "additionalProperties": values}


@pytest.mark.parametrize(
    ("through", "stored", "lost"),
    [
        pytest.param(spec(), spec(size=TEXT), [".spec.size"], id="a-missing-field"),
        pytest.param(spec(size=TEXT), spec(), [], id="a-further-field"),
        pytest.param(of(), of(spec=of(), status=of()), [".spec", ".status"], id="at-the-root"),
        pytest.param(of(), of(metadata=of(a=TEXT), kind=TEXT), [], id="the-envelope"),
        pytest.param(spec(), spec(metadata=of(a=TEXT)), [".spec.metadata"], id="no-envelope"),
        pytest.param(
            spec(a=listed(of())), spec(a=listed(of(b=TEXT))), [".spec.a[].b"], id="in-a-list"
        ),
        pytest.param(
            spec(a=listed(listed(of()))),
            spec(a=listed(listed(of(b=TEXT)))),
            [".spec.a[][].b"],
            id="in-a-list-of-lists",
        ),
        pytest.param(spec(a=of()), spec(a=listed(of(b=TEXT))), [".spec.a[].b"], id="no-list"),
        pytest.param(
            spec(a=mapped(of())), spec(a=mapped(of(b=TEXT))), [".spec.a.*.b"], id="in-a-map"
        ),
        pytest.param(spec(a=of(b=TEXT)), spec(a=mapped(TEXT)), [".spec.a.*"], id="a-map"),
        pytest.param(spec(a=mapped(TEXT)), spec(a=of(b=TEXT)), [], id="a-map-that-has-it"),
        pytest.param(spec(a=mapped(True)), spec(a=of(b=TEXT)), [], id="any-map-of-texts"),
        pytest.param(spec(a=mapped({})), spec(a=mapped(TEXT)), [], id="an-empty-schema"),
        pytest.param(
            spec(a=mapped(True)), spec(a=of(b=of(c=TEXT))), [".spec.a.b.c"], id="any-map-of-maps"
        ),
        pytest.param(spec(a=of()), spec(a=ANY), [".spec.a.*"], id="unknown-fields"),
        pytest.param(spec(a=ANY), spec(a=of(b=of(c=TEXT))), [], id="unknown-fields-kept"),
        pytest.param(
            of(spec=ANY | of(a=of())),
            of(spec=ANY),
            [".spec.a.*"],
            id="specified-fields-among-unknown-ones",
        ),
        pytest.param(of(spec=ANY), of(spec=ANY | of(a=of(b=TEXT))), [], id="all-kept"),
        pytest.param(of(spec=ANY), of(spec=ANY), [], id="equal"),
        pytest.param(
            spec(a=of()),
            spec(a=EMBEDDED),
            [".spec.a.apiVersion", ".spec.a.kind", ".spec.a.metadata"],
            id="an-embedded-object",
        ),
        pytest.param(
            spec(a=EMBEDDED), spec(a=of(metadata=of(b=TEXT))), [], id="embedded-metadata-kept"
        ),
        pytest.param(spec(a=TEXT), spec(a=of(b=TEXT)), [".spec.a.b"], id="a-scalar"),
        pytest.param(spec(a=of(b=TEXT)), spec(a=TEXT), [], id="from-a-scalar"),
    ],
)
def test_fields_that_a_schema_takes_away(through: JSON, stored: JSON, lost: list[str]) -> None:
    assert lost_fields(through, stored) == lost


def test_a_list_of_lost_fields_has_an_end() -> None:
    wide = spec(**{f"field{number}": TEXT for number in range(1000)})
    assert FIELDS < len(lost_fields(spec(), wide)) <= 1000
    assert lost_fields(spec(), spec(**{f"f{n}": spec(a=TEXT) for n in range(1000)}))


def test_schemas_that_take_long_to_compare_count_as_lossy() -> None:
    """A provider writes them, and 1,000 subtrees against one another are a million of pairs."""
    many = of(**{f"field{number}": ANY for number in range(1000)})
    wide = of(**{f"field{number}": ANY | of(own=ANY) for number in range(1000)})
    assert lost_fields(mapped(many | ANY), wide) == ["more fields than can be compared"]


def test_schemas_that_are_too_deep_to_compare_count_as_lossy() -> None:
    less, more = TEXT, of(b=TEXT)
    for _ in range(2000):
        less, more = of(a=less), of(a=more)
    assert lost_fields(less, more) == ["more fields than can be compared"]


SCALARS = st.sampled_from([TEXT, {"x-kubernetes-int-or-string": True}])
KEYS = st.sampled_from(["a", "b", "metadata"])


def _schemas(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    objects = st.dictionaries(KEYS, inner, max_size=3).map(lambda found: of(**found))
    return st.one_of(
        objects,
        objects.map(lambda one: one | ANY),
        objects.map(lambda one: one | EMBEDDED),
        inner.map(mapped),
        st.just(mapped(True)),
        inner.map(listed),
    )


SCHEMAS = st.recursive(SCALARS, _schemas, max_leaves=8)
VALUES = st.recursive(
    st.just("x"),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "c", "metadata"]), inner, max_size=4),
        st.lists(inner, max_size=2),
    ),
    max_leaves=12,
)


def fitting(value: Any, schema: JSON) -> bool:
    """Whether a value has the types that a schema says, which validation sees to."""
    if schema.get("type") == "object":
        additional = schema.get("additionalProperties")
        members = schema.get("properties") or {}
        return isinstance(value, dict) and all(
            fitting(inner, members.get(key, additional if isinstance(additional, dict) else {}))
            for key, inner in value.items()
        )
    if schema.get("type") == "array":
        return isinstance(value, list) and all(fitting(item, schema["items"]) for item in value)
    return not schema or isinstance(value, str)


@given(SCHEMAS, SCHEMAS, VALUES)
def test_what_is_said_to_be_kept_is_kept_by_pruning(narrow: JSON, wide: JSON, value: Any) -> None:
    """The sandbox prunes as kube-apiserver does, which the contract tests hold."""
    through, stored = of(spec=narrow), of(spec=wide)
    if lost_fields(through, stored) or not fitting(value, wide):
        return
    body: JSON = {"spec": value}
    _prune(stored, body)
    before = repr(body)
    _prune(through, body)
    assert repr(body) == before


def _prune(schema: JSON, body: JSON) -> None:
    if (prune := compile_pruner(schema, root=True)) is not None:
        prune(body)


LESS, MORE = spec(colour=TEXT), spec(colour=TEXT, size=TEXT)


def version(name: str, schema: JSON, how: str = "served") -> KindVersion:
    words = how.split()
    return KindVersion(name, schema, served="served" in words, storage="stored" in words)


def kind(*versions: KindVersion, where: str = "there", former: Any = ()) -> KindVersions:
    return KindVersions(where, versions, former)


LOST = "there v1beta1 lacks .spec.size of v1, in which objects are stored"


@pytest.mark.parametrize(
    ("clusters", "chosen"),
    [
        pytest.param(
            [kind(version("v1beta1", LESS), version("v1", MORE, "served stored"))],
            Lossless("v1"),
            id="the-stored-one",
        ),
        pytest.param(
            [kind(version("v1beta1", LESS), version("v1", MORE, "stored"))],
            Lossless("", LOST),
            id="the-stored-one-is-not-served",
        ),
        pytest.param(
            [
                kind(
                    version("v1beta1", LESS),
                    version("v1beta2", MORE),
                    version("v1", MORE, "stored"),
                )
            ],
            Lossless("v1beta2"),
            id="another-has-all-its-fields",
        ),
        pytest.param(
            [
                kind(version("v1", MORE, "served stored"), version("v2", MORE)),
                kind(version("v1", MORE), version("v2", MORE, "served stored"), where="here"),
            ],
            Lossless("v1"),
            id="the-provider's-before-the-consumer's",
        ),
        pytest.param(
            [
                kind(version("v1", MORE), version("v2", MORE, "stored")),
                kind(version("v2", MORE, "served stored"), where="here"),
            ],
            Lossless("", "no version is served everywhere (there v1; here v2)"),
            id="none-is-served-on-both-sides",
        ),
        pytest.param(
            [
                kind(version("v1", MORE, "served stored")),
                kind(version("v1", LESS), version("v2", MORE, "served stored"), where="here"),
            ],
            Lossless("", "here v1 lacks .spec.size of v2, in which objects are stored"),
            id="the-consumer-stores-another",
        ),
        pytest.param(
            [
                kind(
                    version("v1", MORE),
                    version("v2", LESS, "served stored"),
                    former=[version("v1", MORE)],
                )
            ],
            Lossless("", "there v2 lacks .spec.size of v1, in which objects are stored"),
            id="what-is-written-is-stored-in-less",
        ),
        pytest.param(
            [kind(version("v1", LESS, "served stored"), former=[version("v1", MORE)])],
            Lossless(
                "", "there v1 lacks .spec.size of itself as it was, in which objects are stored"
            ),
            id="a-version-that-has-lost-a-field",
        ),
        pytest.param(
            [
                kind(
                    version("v1beta1", LESS),
                    version("v1", MORE, "served stored"),
                    former=[version("v1beta1", LESS)],
                )
            ],
            Lossless("v1"),
            id="objects-of-a-version-with-less",
        ),
    ],
)
def test_the_version_that_is_chosen(clusters: list[KindVersions], chosen: Lossless) -> None:
    assert lossless(*clusters) == chosen


def _crd(*versions: tuple[str, JSON, str], **more: Any) -> JSON:
    return {
        "versions": [
            {
                "name": name,
                "served": "served" in how,
                "storage": "stored" in how,
                "schema": {"openAPIV3Schema": schema},
            }
            for name, schema, how in versions
        ],
        **more,
    }


WEBHOOK = {"conversion": {"strategy": "Webhook"}}
APART = (("v1beta1", LESS, "served"), ("v1", MORE, "stored"))
MOVED = (("v1beta1", MORE, "served"), ("v1", LESS, "served stored"))


@pytest.mark.parametrize(
    ("body", "before", "chosen"),
    [
        pytest.param(_crd(*MOVED), None, "", id="a-move-to-less"),
        pytest.param(_crd(*MOVED, **WEBHOOK), None, "v1", id="a-webhook-carries-over"),
        pytest.param(_crd(*APART), None, "", id="the-stored-version-is-not-served"),
        pytest.param(
            _crd(*APART, **WEBHOOK), None, "v1beta1", id="a-webhook-converts-what-is-served"
        ),
        pytest.param(
            _crd(("v1", LESS, "served stored"), **WEBHOOK),
            _crd(("v1", MORE, "served stored")),
            "",
            id="no-webhook-is-asked-within-a-version",
        ),
        pytest.param(
            _crd(("v1beta1", LESS, "served"), ("v1", MORE, "served stored")),
            _crd(("v1beta1", LESS, "served stored")),
            "v1",
            id="a-move-to-more",
        ),
        pytest.param(
            _crd(("v1", LESS, "served stored"), preserveUnknownFields=True),
            _crd(("v1", MORE, "served stored")),
            "v1",
            id="nothing-is-pruned",
        ),
    ],
)
def test_versions_of_a_crd(body: JSON, before: JSON | None, chosen: str) -> None:
    assert lossless(crd_versions("here", body, ["v1beta1"], before)).name == chosen
