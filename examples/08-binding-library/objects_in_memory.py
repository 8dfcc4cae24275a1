"""A binding without a cluster: objects in memory go in, changed ones come out.

Run it with Fairlead installed: python examples/08-binding-library/objects_in_memory.py
"""

from __future__ import annotations

from fairlead.api.meta import object_from_dict
from fairlead.binding import Objects, SpecBuilder


SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "orders-db", "namespace": "shop"},
    "stringData": {"type": "postgresql", "host": "db.example", "password": "made-up"},
}
WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "orders", "namespace": "shop"},
    "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "orders:1"}]}}},
}
BINDING = {
    "apiVersion": "servicebinding.io/v1",
    "kind": "ServiceBinding",
    "metadata": {"name": "db", "namespace": "shop", "uid": "1"},
    "spec": {
        "service": {"apiVersion": "v1", "kind": "Secret", "name": "orders-db"},
        "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"},
    },
}


def main() -> None:
    """Run one pass, and show what it would write."""
    objects = Objects([SECRET, WORKLOAD])
    context = SpecBuilder().process(object_from_dict(BINDING), objects.answer)
    for condition in context.conditions("2026-01-01T00:00:00Z"):
        print(condition["type"], condition["status"], condition["reason"])
    for workload in context.changed_workloads():
        pod = workload.body["spec"]["template"]["spec"]
        print(workload, "mounts", pod["containers"][0]["volumeMounts"][0]["mountPath"])


if __name__ == "__main__":
    main()
