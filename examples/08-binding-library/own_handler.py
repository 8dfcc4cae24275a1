"""A handler of one's own: every binding gets an entry ``uri``, put together from the others.

Handlers speak to nothing but their context, and decide whether the pass goes on. One that reads is
an ``async def``; this one only looks at what was collected. Run it with Fairlead installed:
python examples/08-binding-library/own_handler.py
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fairlead.api.meta import object_from_dict
from fairlead.binding import Context, Item, Objects, SpecBuilder


NEEDED = ("type", "username", "password", "host", "database")


def text(value: Any) -> str:
    """Entries of Secrets are bytes, those of definitions what the service's field is."""
    return value.decode() if isinstance(value, bytes) else str(value)


def add_uri(context: Context) -> None:
    """Add the URI, or wait until the service has all that belongs into one."""
    values = {item.name: text(item.value) for item in context.items()}
    missing = [name for name in NEEDED if name not in values]
    if missing:
        context.flow.wait_for_change(f"no {', '.join(missing)} for the URI yet")
        return
    user, password = quote(values["username"], safe=""), quote(values["password"], safe="")
    place = f"{values['host']}/{quote(values['database'], safe='')}"
    context.add_item(Item("uri", f"{values['type']}://{user}:{password}@{place}"))


BUILDER = SpecBuilder().after("binding_items", add_uri)


def main() -> None:
    """Bind a Secret that has all it needs, and one that has not."""
    complete = dict.fromkeys(NEEDED, "a b") | {"type": "postgresql", "host": "db.example"}
    for name, entries in (("complete", complete), ("lacking", {"type": "postgresql"})):
        binding = {
            "apiVersion": "servicebinding.io/v1",
            "kind": "ServiceBinding",
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {
                "service": {"apiVersion": "v1", "kind": "Secret", "name": name},
                "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"},
            },
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "shop"},
            "stringData": entries,
        }
        context = BUILDER.process(object_from_dict(binding), Objects([secret]).answer)
        made = context.changes.secret
        print(name, made.content["uri"].decode() if made else context.flow.error)


if __name__ == "__main__":
    main()
