"""Shapes of kinds: which parts of an object have owners of their own in server-side apply.

The shape of a custom kind comes from its structural schema (``x-kubernetes-list-type``,
``-list-map-keys``, ``-map-type``), that of a built-in kind from its message and the list types of
the Kubernetes API reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox import kinds


class Shape:
    """A value that is owned as a whole: a scalar, or an atomic list or map."""

    is_map = False
    """Whether members have owners of their own."""
    is_list = False
    """Whether items have owners of their own."""

    def child(self, name: str) -> Shape | None:
        """Return the shape of an object's member; None if the object has no such member."""
        return None

    def declares(self, name: str) -> bool:
        """Whether the member is a declared field, as opposed to a key of a map."""
        return False


WHOLE = Shape()


class Map(Shape):
    """An object; ``rest`` is the shape of undeclared members, None if there are none."""

    is_map = True

    def __init__(
        self, members: Callable[[], Mapping[str, Shape]], rest: Shape | None = None
    ) -> None:
        self._compile = members
        self._rest = rest

    @cached_property
    def _members(self) -> Mapping[str, Shape]:
        # Compiled at first use. Types refer to themselves (a JSON schema has JSON schemas), and
        # schemas of CRDs may be nested deeper than Python's stack.
        return self._compile()

    def child(self, name: str) -> Shape | None:
        """Return the shape of a declared member, or the shape of all others."""
        return self._members.get(name, self._rest)

    def declares(self, name: str) -> bool:
        """Whether the member is declared."""
        return name in self._members


class Deduced(Shape):
    """A value without a schema: members of objects have owners, lists are owned as a whole."""

    is_map = True

    def child(self, name: str) -> Shape | None:
        """Return this shape, which fits every value."""
        return self


DEDUCED = Deduced()


class List(Shape):
    """A list whose items have owners; ``keys`` identify an item, without keys the list is a set.

    ``defaults`` are the values of absent keys.
    """

    is_list = True

    def __init__(
        self, items: Shape, keys: tuple[str, ...], defaults: Mapping[str, Any] | None = None
    ) -> None:
        self.items = items
        self.keys = keys
        self.defaults = defaults or {}


def _map_of(rest: Shape) -> Shape:
    return Map(dict, rest)


# A port without protocol has the key of one with TCP, the field's default.
_TCP = {"protocol": "TCP"}
_LISTS: Mapping[tuple[str, str], tuple[tuple[str, ...], Mapping[str, str]]] = {
    ("ObjectMeta", "finalizers"): ((), {}),
    ("ObjectMeta", "ownerReferences"): (("uid",), {}),
    **{
        (container, field): (keys, defaults)
        for container in ("Container", "EphemeralContainerCommon")
        for field, keys, defaults in (
            ("env", ("name",), {}),
            ("ports", ("containerPort", "protocol"), _TCP),
            ("volumeDevices", ("devicePath",), {}),
            ("volumeMounts", ("mountPath",), {}),
        )
    },
    **{
        ("PodSpec", field): (keys, {})
        for field, keys in (
            ("containers", ("name",)),
            ("initContainers", ("name",)),
            ("ephemeralContainers", ("name",)),
            ("hostAliases", ("ip",)),
            ("imagePullSecrets", ("name",)),
            ("resourceClaims", ("name",)),
            ("schedulingGates", ("name",)),
            ("topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable")),
            ("volumes", ("name",)),
        )
    },
    ("PodStatus", "podIPs"): (("ip",), {}),
    ("PodStatus", "hostIPs"): ((), {}),
    ("MutatingWebhookConfiguration", "webhooks"): (("name",), {}),
    ("NodeSpec", "podCIDRs"): ((), {}),
    ("NodeStatus", "addresses"): (("type",), {}),
    ("ServiceAccount", "secrets"): (("name",), {}),
    ("ServiceSpec", "ports"): (("port", "protocol"), _TCP),
    ("ValidatingWebhookConfiguration", "webhooks"): (("name",), {}),
    **{
        (f"{kind}Status", "conditions"): (("type",), {})
        for kind in (
            "CustomResourceDefinition",
            "DaemonSet",
            "Deployment",
            "Namespace",
            "Node",
            "PersistentVolumeClaim",
            "Pod",
            "ReplicaSet",
            "Service",
            "StatefulSet",
        )
    },
}
"""Lists whose items merge, by message and field: their keys (none for a set) and defaults.

All other lists are atomic.
"""

_ATOMIC_MAPS = frozenset({("PodSpec", "nodeSelector"), ("ServiceSpec", "selector")})
"""Maps that are owned as a whole, by message and field."""
_ATOMIC = frozenset(
    {
        "ConfigMapKeySelector",
        "LabelSelector",
        "LocalObjectReference",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ResourceFieldSelector",
        "RoleRef",
        "SecretKeySelector",
        "Subject",
        "TypedLocalObjectReference",
    }
)
"""Messages with ``x-kubernetes-map-type: atomic``."""


@cache
def of_message(name: str) -> Shape:
    """Return the shape of a built-in kind's message."""
    if name not in kinds.load().messages:
        return DEDUCED if name.startswith("schemaOr") else WHOLE
    if name in _ATOMIC:
        return WHOLE
    fields = kinds.load().messages[name].fields
    return Map(lambda: {key: _of_field(name, field) for key, field in fields.items()})


def _of_field(message: str, field: kinds.Field) -> Shape:
    place = (message, field.name)
    inner = of_message(field.type.name)
    if field.type.shape == "map":
        return WHOLE if place in _ATOMIC_MAPS else _map_of(inner)
    if field.type.shape == "one":
        return inner
    if message == "EphemeralContainer":
        # EphemeralContainer inlines the fields of this message, under whose name their lists
        # stand.
        place = ("EphemeralContainerCommon", field.name)
    if place not in _LISTS:
        return WHOLE
    keys, defaults = _LISTS[place]
    return List(inner, keys, defaults)


def of_kind(message: kinds.Message) -> Shape:
    """Return the shape of a built-in kind's objects."""
    own = of_message(message.name)
    envelope = {"apiVersion": WHOLE, "kind": WHOLE}
    return Map(lambda: envelope | {name: own.child(name) or WHOLE for name in message.fields})


def of_schema(schema: JSON) -> Shape:
    """Return the shape of a custom resource's objects, from its structural schema."""
    return Map(lambda: _properties(schema) | _envelope(), _rest(schema))


def _envelope() -> dict[str, Shape]:
    return {"apiVersion": WHOLE, "kind": WHOLE, "metadata": of_message("ObjectMeta")}


def _of_value(schema: JSON) -> Shape:
    if schema.get("x-kubernetes-int-or-string"):
        return WHOLE
    if schema.get("x-kubernetes-embedded-resource"):
        return Map(lambda: _properties(schema) | _envelope(), _rest(schema))
    kind = schema.get("type")
    if kind == "array":
        return _of_list(schema)
    if kind == "object":
        if schema.get("x-kubernetes-map-type") == "atomic":
            return WHOLE
        return Map(lambda: _properties(schema), _rest(schema))
    return DEDUCED if schema.get("x-kubernetes-preserve-unknown-fields") else WHOLE


def _properties(schema: JSON) -> dict[str, Shape]:
    properties = schema.get("properties") or {}
    return {name: _of_value(inner) for name, inner in properties.items()}


def _rest(schema: JSON) -> Shape | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return _of_value(additional)
    return DEDUCED if additional or schema.get("x-kubernetes-preserve-unknown-fields") else None


def _of_list(schema: JSON) -> Shape:
    items = schema.get("items") or {}
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return List(_of_value(items), ())
    if kind != "map":
        return WHOLE
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    given = ((key, (items.get("properties") or {}).get(key) or {}) for key in keys)
    defaults = {key: inner["default"] for key, inner in given if "default" in inner}
    return List(_of_value(items), keys, defaults)
