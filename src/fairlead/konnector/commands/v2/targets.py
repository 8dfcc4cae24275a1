"""Objects that a command is about, as a person writes them: ``clusterbinding/shop``."""

from __future__ import annotations

import msgspec

from fairlead.api.kbind.names import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, KBIND_KINDS
from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.label_names import is_label, subdomain_errors
from fairlead.api.meta import Key, Object
from fairlead.api.resource import Resource
from fairlead.client import Client, ClientError
from fairlead.client.lookups import find_custom, list_all
from fairlead.konnector.commands.request import BindError


FORMS = "clusterbinding/NAME, binding/NAMESPACE/NAME or connection/NAME"
"""The forms of objects of kbind v2, for messages."""


class KbindTarget(msgspec.Struct, frozen=True):
    """Kind, namespace and name of an object of either protocol; no kind is v1alpha2's binding."""

    resource: Resource
    key: Key

    @property
    def text(self) -> str:
        """The target as a person writes it."""
        if self.resource == APISERVICEBINDINGS:
            return self.key.name
        return f"{self.resource.kind.lower()}/{self.key}"

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        return f"{self.resource.kind} {self.key}"


def target_of(obj: Object) -> KbindTarget:
    """Return the target that an object of kbind v2 is."""
    resource = next(kind for kind in KBIND_KINDS if kind.kind == obj.kind)
    return KbindTarget(resource, obj.key)


def parse_target(text: str) -> KbindTarget:
    """Parse ``NAME`` of an APIServiceBinding, or one of :data:`FORMS`.

    Kinds may be written as kubectl takes them: plural, and with their group.

    Raises:
        ValueError: the text has another form.
    """
    parts = text.split("/")
    if len(parts) == 1:
        return KbindTarget(APISERVICEBINDINGS, _key(text, *parts))
    word, *rest = parts
    for resource in (*KBIND_KINDS, APISERVICEBINDINGS):
        words = {resource.kind.lower(), resource.plural}
        words |= {f"{word}.{resource.group}" for word in words}
        if word.lower() not in words:
            continue
        if len(rest) != 1 + (resource == BINDINGS):
            break
        return KbindTarget(resource, _key(text, *rest))
    raise ValueError(f"{text!r} is not NAME, {FORMS}")


def _key(text: str, *parts: str) -> Key:
    *place, name = parts
    if subdomain_errors(name) or any(not is_label(one) for one in place):
        raise ValueError(
            f"{text!r} is not NAME, {FORMS}: names have lower-case letters, digits, '-' and '.'"
        )
    return Key(place[0] if place else "", name)


async def check_plain(client: Client, name: str) -> None:
    """Raise if a name without a kind is of objects of kbind v2 alone.

    Raises:
        BindError: it is; the message has their forms.
        ClientError: the server cannot be reached.
    """
    if await find_custom(client, APISERVICEBINDINGS, name) is not None:
        return
    if targets := await _named(client, name):
        forms = " or ".join(target.text for target in targets)
        raise BindError(f"APIServiceBinding {name} does not exist: for kbind v2 give {forms}")


async def _named(client: Client, name: str) -> list[KbindTarget]:
    """Return the objects of kbind v2 of a name; those that cannot be listed are left out."""
    targets: list[KbindTarget] = []
    for resource in (CLUSTERBINDINGS, BINDINGS, CONNECTIONS):
        try:
            objects = await list_all(client, resource)
        except ClientError:
            continue
        targets += [KbindTarget(resource, obj.key) for obj in objects if obj.meta.name == name]
    return targets
