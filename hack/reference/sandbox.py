"""The tables of docs/reference/sandbox.md, which is written by hand around them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

from hack.reference import tables

from fairlead.api.meta import JSON
from fairlead_sandbox.auth.credentials import RootCa, TokenSecrets
from fairlead_sandbox.auth.reviews import review_types
from fairlead_sandbox.builtin import builtin_types
from fairlead_sandbox.controllers.clusterroles import Aggregator
from fairlead_sandbox.controllers.crds import CRD_TYPE, CrdController
from fairlead_sandbox.controllers.garbage import GarbageCollector
from fairlead_sandbox.controllers.namespaces import NamespaceContentController
from fairlead_sandbox.http import listening, server
from fairlead_sandbox.patches import jsonpatch
from fairlead_sandbox.requests import attempts, heavy, workers
from fairlead_sandbox.requests.handlers import watch
from fairlead_sandbox.resources.types import ResourceType, Strategy
from fairlead_sandbox.schema import effort
from fairlead_sandbox.schema.cel import costs, syntax
from fairlead_sandbox.schema.crds import rules, versions
from fairlead_sandbox.storage import store
from fairlead_sandbox.storage.compaction import Retention


PAGE = "sandbox.md"
CONTROLLERS: Mapping[type, tuple[str, str]] = {
    CrdController: (
        "CustomResourceDefinition",
        "accepts its names, serves the kind, deletes its objects before it goes",
    ),
    NamespaceContentController: (
        "Namespace",
        "makes the ServiceAccount `default`, deletes the content before the namespace goes",
    ),
    RootCa: ("Namespace", "makes the ConfigMap `kube-root-ca.crt`"),
    Aggregator: (
        "ClusterRole",
        "takes over the rules of the roles that `aggregationRule` selects",
    ),
    TokenSecrets: (
        "Secret",
        "fills in `kubernetes.io/service-account-token`, and deletes it with its account",
    ),
    GarbageCollector: ("", "deletes objects of any kind whose owners are gone"),
}
"""The kind that each controller looks after, "" for all, and its work."""

_SAMPLES: Mapping[str, JSON] = {
    "CustomResourceDefinition": {"spec": {"names": {"kind": "A"}}},
    "MutatingWebhookConfiguration": {"webhooks": [{"name": "a"}]},
    "ValidatingWebhookConfiguration": {"webhooks": [{"name": "a"}]},
}
"""Members without which a kind has nothing to default."""
_ENVELOPE = frozenset({"apiVersion", "kind", "metadata", "status"})


def filled(text: str) -> str:
    """Return the page with its tables as the code has them."""
    for name, table in (("kinds", _kinds()), ("limits", _limits())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        head, found, rest = text.partition(begin)
        if found:
            text = f"{head}{begin}{table}{end}{rest.partition(end)[2]}"
    return text


def _kinds() -> str:
    types = [*builtin_types(), CRD_TYPE, *review_types()]
    head = ("kind", "stored", "defaulted members", "validated", "controller")
    return tables.table(head, [_row(type_) for type_ in types])


def _row(type_: ResourceType) -> tuple[str, ...]:
    kind = type_.resource.kind
    stored = "get" in type_.verbs
    checked = type(type_.strategy).validate is not Strategy.validate
    return (
        f"{kind} ({type_.resource.api_version})",
        "yes" if stored else "no, answered",
        ", ".join(map(tables.code, _defaulted(type_))),
        "metadata and content" if checked else "metadata" if stored else "content",
        "; ".join(work for of, work in CONTROLLERS.values() if of == kind),
    )


def _defaulted(type_: ResourceType) -> Iterator[str]:
    """Yield the members that the server writes into an object without them, two levels deep."""
    kind = type_.resource.kind
    body = type_.readable(copy.deepcopy({**type_.empty, **_SAMPLES.get(kind, {})}))
    body |= {"apiVersion": type_.resource.api_version, "kind": kind}
    before = copy.deepcopy(body)
    type_.strategy.default(body)
    for name in sorted(body.keys() - _ENVELOPE):
        old, new = before.get(name), body[name]
        if isinstance(new, dict):
            old = old if isinstance(old, dict) else {}
            yield from (f"{name}.{key}" for key in sorted(new) if old.get(key) != new[key])
        elif old != new or name not in before:
            yield name


def _limits() -> str:
    history = Retention()
    rows = (
        ("body of a request", _bytes(server.MAX_BODY), "413"),
        ("body of options, a review or a token request", _bytes(heavy.MAX_OPTIONS), "413"),
        ("first line of a request, and each header", _bytes(listening.MAX_LINE), "431"),
        ("object as JSON", _bytes(store.MAX_OBJECT), "413"),
        ("headers to arrive", f"{listening.HEADER_SECONDS:g} s", "the connection is cut"),
        ("body to arrive", f"{server.BODY_SECONDS:g} s", "504"),
        ("a write with all its webhooks", f"{attempts.SECONDS:g} s", "504"),
        ("a write that its object's changes overtake", f"{attempts.ATTEMPTS} attempts", "409"),
        (
            "a worker's job",
            f"{workers.SECONDS:g} s, {_bytes(workers.MEMORY)} of memory",
            "504, 413",
        ),
        ("operations of a JSON patch", f"{jsonpatch.MAX_OPERATIONS:,}", "413"),
        ("bytes that its copies add", _bytes(jsonpatch.MAX_COPIED), "422"),
        ("levels of a schema", f"{versions.MAX_DEPTH}", "422"),
        ("CEL: characters of an expression", f"{syntax.MAX_LENGTH:,}", "422"),
        ("CEL: levels of an expression", f"{syntax.MAX_DEPTH}", "422"),
        ("CEL: estimated units of a rule", f"{rules.PER_RULE:,}", "422 for the CRD"),
        ("CEL: estimated units of a schema", f"{rules.PER_SCHEMA:,}", "422 for the CRD"),
        (
            "CEL: counted units of one evaluation",
            f"{costs.PER_EXPRESSION:,}",
            "422 for the object",
        ),
        ("CEL: counted units of all rules", f"{costs.PER_OBJECT:,}", "422 for the object"),
        ("check of an object", _seconds(effort.LIMIT), "422"),
        ("check of a CRD", _seconds(effort.CRD_LIMIT), "422"),
        (
            "what waits for a slow watch",
            f"{watch.BACKLOG:,} events, {_bytes(watch.BACKLOG_BYTES)}",
            "the watch ends",
        ),
        (
            "history",
            f"{history.seconds:g} s, {history.changes:,} changes at most",
            "410 for older versions",
        ),
    )
    return tables.table(("limit", "value", "answer beyond it"), rows)


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} bytes"


def _seconds(steps: int) -> str:
    return f"about {steps / effort.STEPS_PER_SECOND:g} s of computing"
