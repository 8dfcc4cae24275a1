"""Labels and annotations that stay in the cluster in which they were set.

Tools that deliver objects mark them, and later delete what bears their mark and is not in their
source. A mark that crosses with its object has the tool of the other cluster delete the copy. Keys
by which controllers copy, back up or restart what bears them are about one cluster, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fairlead.api.label_names import label_value_errors, qualified_name_errors, subdomain_errors
from fairlead.api.meta import JSON, Object
from fairlead.konnector.policies.copies import Metadata, payload


DEFAULT_LOCAL_KEYS: Final = (
    # Tools that deliver: Kubernetes' addon manager, Helm, `kubectl apply --prune`, Argo CD, kpt,
    # Flux, kapp, Rancher's Fleet.
    "addonmanager.kubernetes.io/*",
    "app.kubernetes.io/managed-by=Helm",
    "applyset.kubernetes.io/*",
    "argocd.argoproj.io/*",
    "config.k8s.io/*",
    "helm.toolkit.fluxcd.io/*",
    "kapp.k14s.io/*",
    "kustomize.toolkit.fluxcd.io/*",
    "meta.helm.sh/*",
    "objectset.rio.cattle.io/*",
    # Controllers that act: they copy to other namespaces, delete, restart, or back up.
    "kubed.appscode.com/*",
    "reconcile.external-secrets.io/*",
    "reflector.v1.k8s.emberstack.com/*",
    "reloader.stakater.com/*",
    "replicator.v1.mittwald.de/*",
    "velero.io/*",
)
"""Patterns of keys that do not cross: KEY, PREFIX/* or KEY=VALUE."""
ALL_KEYS: Final = "*"
"""Pattern of all keys."""
INSTANCE: Final = "app.kubernetes.io/instance"
"""Label of an app, which is a mark of Argo CD or Helm where another mark stands beside it."""

_BELOW = f"/{ALL_KEYS}"
_SELECTOR = "selector"
_NOT_SELECTING = {"metadata", "status"}


class _Patterns(NamedTuple):
    """Patterns of keys by their form, since each label of each object is looked up."""

    prefixes: frozenset[str]
    keys: frozenset[str]
    values: frozenset[tuple[str, str]]

    def having(self, keys: Mapping[str, str]) -> dict[str, str]:
        """Return the keys that one of the patterns has."""
        prefixes, names, values = self
        if ALL_KEYS in names:
            return dict(keys)
        return {
            name: value
            for name, value in keys.items()
            if name in names or name.rpartition("/")[0] in prefixes or (name, value) in values
        }


def _patterns(texts: Iterable[str]) -> _Patterns:
    prefixes, keys, values = set[str](), set[str](), set[tuple[str, str]]()
    for text in texts:
        key, equals, value = text.partition("=")
        if equals:
            values.add((key, value))
        elif key.endswith(_BELOW):
            prefixes.add(key.removesuffix(_BELOW))
        else:
            keys.add(key)
    return _Patterns(frozenset(prefixes), frozenset(keys), frozenset(values))


class LocalMetadataKeys(msgspec.Struct, frozen=True):
    """The keys that stay: those of ``local`` patterns, but for those of ``crossing`` patterns."""

    local: _Patterns = _patterns(DEFAULT_LOCAL_KEYS)
    crossing: _Patterns = _patterns(())

    @classmethod
    def of(cls, more: Iterable[str] = (), crossing: Iterable[str] = ()) -> LocalMetadataKeys:
        """Return the default keys with ``more``, without ``crossing``.

        Raises:
            ValueError: a text is no pattern; the message says why.
        """
        more, crossing = frozenset(more), frozenset(crossing)
        for pattern in sorted(more | (crossing - {ALL_KEYS})):
            if errors := _errors(pattern):
                raise ValueError(f"{pattern!r} is not KEY, PREFIX/* or KEY=VALUE: {errors[0]}")
        return cls(_patterns({*DEFAULT_LOCAL_KEYS, *more}), _patterns(crossing))

    def marks(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Metadata:
        """Return the labels and annotations that stay, whatever selectors name."""
        marked, beside = self._matching(labels), self._matching(annotations)
        instance = labels.get(INSTANCE)
        if instance and (marked or beside) and not self.crossing.having({INSTANCE: instance}):
            marked[INSTANCE] = instance
        return Metadata(marked, beside)

    def payload(self, obj: Object) -> JSON:
        """Return the part of an object that crosses, as one JSON value."""
        return payload(obj, self.metadata(obj))

    def metadata(self, obj: Object, named: frozenset[str] = frozenset()) -> Metadata:
        """Return the labels and annotations of an object that cross.

        A label that the object's own selector or one of ``named`` names crosses always: without it
        the copy would select, or be selected, otherwise.
        """
        meta = obj.meta
        marked = self.marks(meta.labels, meta.annotations)
        if not any(marked):
            return Metadata(meta.labels, meta.annotations)
        labels = marked.labels.keys() - named
        if labels:
            labels -= _selected(obj)
        return Metadata(
            {name: value for name, value in meta.labels.items() if name not in labels},
            {
                name: value
                for name, value in meta.annotations.items()
                if name not in marked.annotations
            },
        )

    def _matching(self, keys: Mapping[str, str]) -> dict[str, str]:
        # Most objects have no such key.
        if not (values := self.local.having(keys)):
            return values
        crossing = self.crossing.having(values)
        return {name: value for name, value in values.items() if name not in crossing}


def _errors(pattern: str) -> list[str]:
    if pattern.endswith(_BELOW):
        return subdomain_errors(pattern.removesuffix(_BELOW))
    key, _, value = pattern.partition("=")
    return [*qualified_name_errors(key), *label_value_errors(value)]


def _selected(obj: Object) -> set[str]:
    """Return the labels that selectors in an object name.

    A selector is a member that is called so, such as ``selector`` or ``podSelector``: a
    LabelSelector, or a map of labels as a Service has it.
    """
    if _SELECTOR[1:].encode() not in bytes(obj.raw):
        return set()
    body = obj.to_dict()
    return {
        key
        for name, value in body.items()
        if name not in _NOT_SELECTING
        for key in _names({name: value})
    }


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    if not isinstance(value, dict):
        return
    for name, member in value.items():
        if name.lower().endswith(_SELECTOR) and isinstance(member, dict):
            yield from _keys(member)
        yield from _names(member)


def _keys(selector: dict[str, Any]) -> Iterator[str]:
    """Yield the labels that a selector names, in any of its forms."""
    labels = selector.get("matchLabels")
    yield from labels if isinstance(labels, dict) else ()
    expressions = selector.get("matchExpressions")
    for item in expressions if isinstance(expressions, list) else ():
        if isinstance(item, dict) and isinstance(key := item.get("key"), str):
            yield key
    yield from (name for name, value in selector.items() if isinstance(value, str))
