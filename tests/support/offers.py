"""What a provider's team offers in tests of pages: kinds with schemas, templates, collections."""

from __future__ import annotations

from typing import Any

from fairlead.api.kubebind import API_VERSION, COLLECTIONS, LABEL_EXPORTED
from fairlead.api.meta import JSON
from fairlead.demo import objects
from fairlead.portal.manifests import console_admins


OF_BEN = "topics"
"""The one template that Ben may bind."""

_TEXT: JSON = {"type": "string"}


def _field(kind: str, description: str, **more: Any) -> JSON:
    return {"type": kind, "description": description, **more}


def _object(description: str, *required: str, **properties: JSON) -> JSON:
    found = {"type": "object", "description": description, "properties": properties}
    return found | ({"required": list(required)} if required else {})


_BUCKET = _object(
    "What is kept, where, and for how long.",
    "region",
    region=_field("string", "Where the data lies.", enum=["north", "south"]),
    quotaGiB=_field("integer", "The most that the bucket holds.", minimum=1, default=10),
    versioning=_field("boolean", "Whether older versions of a file stay.", default=False),
    credentialsSecret=_field("string", "The Secret that access keys are written to."),
    lifecycle=_field(
        "array",
        "When files go away by themselves.",
        items=_object(
            "One rule.",
            "expireAfterDays",
            prefix=_field("string", "Files that the rule is for, by the beginning of the name."),
            expireAfterDays=_field("integer", "Days after the last change.", minimum=1),
        ),
    ),
)
_TOPIC = _object(
    "How messages are kept and spread.",
    "partitions",
    partitions=_field("integer", "Into how many parts messages are spread.", default=3),
    retention=_object(
        "What stays, and for how long.",
        hours=_field("integer", "Hours that a message stays.", default=168),
        compact=_field("boolean", "Whether only the newest message of a key stays."),
    ),
    readers=_field("array", "Groups that may read.", items=_TEXT),
)
_MAILBOX = _object(
    "An address and what becomes of its mail.",
    "address",
    address=_field("string", "The part in front of the @."),
    forwardTo=_field("array", "Addresses that a copy goes to.", items=_TEXT),
)

_CONDITION = _object(
    "One condition.",
    **dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), _TEXT),
)

_KINDS: tuple[tuple[str, str, str, JSON], ...] = (
    ("storage.example.org", "buckets", "Bucket", _BUCKET),
    ("events.example.org", "topics", "Topic", _TOPIC),
    ("mail.example.org", "mailboxes", "Mailbox", _MAILBOX),
)
EXPORTS = (
    f"postgresaccesses.{objects.ACCESS_GROUP}",
    *(f"{plural}.{group}" for group, plural, _, _ in _KINDS),
)
"""What consumers may be given rights on."""


def crds() -> list[JSON]:
    """The kinds that no program of ours brings."""
    return [_crd(*one) for one in _KINDS]


def _crd(group: str, plural: str, kind: str, spec: JSON) -> JSON:
    ready = _field("boolean", "Whether it can be used.")
    conditions = _field("array", "What its controller says of it.", items=_CONDITION)
    schema = _object(f"{kind} is a service of the platform's team.", "spec", spec=spec)
    schema["properties"]["status"] = _object(
        "What has become of it.", ready=ready, conditions=conditions
    )
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {LABEL_EXPORTED: "true"}},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def templates() -> list[JSON]:
    """A database's, and one of each other kind."""
    about = {
        "buckets": "A bucket for files, with its access keys",
        "topics": "A topic of the message broker",
        "mailboxes": "A mailbox that forwards",
    }
    found = [objects.template()]
    for group, plural, _, _ in _KINDS:
        spec = {"group": group, "resource": plural, "versions": ["v1"]}
        body: JSON = {
            "apiVersion": API_VERSION,
            "kind": "APIServiceExportTemplate",
            "metadata": {"name": plural},
            "spec": {
                "description": about[plural],
                "scope": "Namespaced",
                "resources": [spec],
            },
        }
        if plural == "buckets":
            path = {"name": "spec.credentialsSecret", "namespace": "metadata.namespace"}
            claimed = {"references": [{**spec, "jsonPath": path}]}
            body["spec"]["permissionClaims"] = [
                {"group": "", "resource": "secrets", "selector": claimed}
            ]
        found.append(body)
    return found


def collections() -> list[JSON]:
    """Two; one template is in neither."""
    return [
        _collection("data", "Where apps keep what they know", objects.TEMPLATE, "buckets"),
        _collection("messaging", "How apps speak to one another", "topics"),
    ]


def _collection(name: str, description: str, *members: str) -> JSON:
    listed = [{"name": one} for one in members]
    return {
        "apiVersion": API_VERSION,
        "kind": COLLECTIONS.kind,
        "metadata": {"name": name},
        "spec": {"description": description, "templates": listed},
    }


def may_bind(team: str, names: tuple[str, ...]) -> tuple[JSON, JSON]:
    """A team's right to bind templates: a ClusterRole and its binding."""
    role, binding = objects.may_bind()
    for body in (role, binding):
        body["metadata"]["name"] = f"{team}-binds"
    role["rules"][0]["resourceNames"] = list(names)
    binding["roleRef"]["name"] = f"{team}-binds"
    binding["subjects"][0]["name"] = f"oidc:{team}"
    return role, binding


def administrators(team: str) -> list[JSON]:
    """A team's right to see all consumers, and what is exported to them."""
    bodies = console_admins([team], groups_prefix="oidc:")
    kinds = [(one.partition(".")[2], one.partition(".")[0]) for one in EXPORTS]
    role, binding = may_bind(team, ())
    for body in (role, binding):
        body["metadata"]["name"] = f"{team}-sees"
    binding["roleRef"]["name"] = f"{team}-sees"
    role["rules"] = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["list"]}
        for group, plural in [("kube-bind.io", "apiserviceexports"), *kinds]
    ]
    return [*bodies, role, binding]
