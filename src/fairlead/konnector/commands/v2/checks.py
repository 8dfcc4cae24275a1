"""Looks at both clusters before the first write: a bind that must fail fails here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.conditions import is_true, stored_conditions
from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import ClusterBinding, Connection
from fairlead.api.kbind.bindfile import BindFile, key_of, kubeconfig_of, secret_key
from fairlead.api.kbind.names import (
    CONNECTIONS,
    GROUP,
    KBIND_KINDS,
    LABEL_EXPORTED,
    PENDING,
    READY,
)
from fairlead.api.manifests import READ_VERBS
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    Resource,
)
from fairlead.api.timestamps import moment
from fairlead.client import (
    Client,
    ClientError,
    ClusterConfig,
    ConfigError,
    Forbidden,
    NotServed,
    Unauthorized,
    parse_kubeconfig,
)
from fairlead.client.lookups import find, list_all, may, unknown
from fairlead.konnector.commands import presence
from fairlead.konnector.commands.consumer_objects import ROLE_KINDS, regranted
from fairlead.konnector.commands.preflight import check_kinds, check_kinds_served
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.commands.v2.estate import users_of
from fairlead.konnector.commands.v2.plan import (
    RESOURCES,
    apis_of,
    connection_name,
    kinds_of,
    konnector_account,
    same,
)
from fairlead.konnector.manifests import NAME
from fairlead.konnector.options import DEFAULT_PROTOCOLS
from fairlead.konnector.secrets import content
from fairlead.konnector.v2.bindings.coverage import ANNOTATION_BINDING_NAMESPACES
from fairlead.konnector.v2.bindings.crds import owner_of, plan_crd
from fairlead.konnector.v2.connection.link import TIMEOUTS
from fairlead.konnector.v2.connection.reconcile import exported_apis
from fairlead.konnector.v2.identity import cluster_uid
from fairlead.konnector.v2.schemas.source import ANSWER_SECONDS


TURN_ON = (
    "remove --protocols v1alpha2 from the konnector, and apply its rights and CRDs: `fairlead "
    "manifests konnector`, or in the chart without konnector.protocols"
)
BLAME = "do not trust this file"
"""Advice about a file that binds kinds of the cluster itself."""
_OUR_COMMAND = ["konnector", "run"]


class ProviderOffer(msgspec.Struct, frozen=True):
    """The APIs that a provider offers, with its CRDs where it may be asked.

    ``uid`` is of its cluster, "" where the Connection is not Ready yet. ``apis`` is None where
    it is not known which there are.
    """

    uid: str = ""
    apis: Sequence[str] | None = None
    crds: Mapping[str, Object] = {}
    pulls: bool = True
    """Whether the Connection makes CRDs here."""


async def check_konnector(client: Client, namespace: str, progress: Progress) -> None:
    """Raise unless the kinds of kbind v2 are served, by a konnector that has them turned on.

    A stop is only reported: a konnector without a Lease may run elsewhere.

    Raises:
        BindError: it is so; the message says how to turn it on.
        ClientError: the server cannot be reached.
    """
    client.discovery.invalidate()
    for resource in KBIND_KINDS:
        try:
            await client.discovery.resource_by_plural(resource.group, resource.plural)
        except NotServed:
            raise BindError(
                f"this cluster does not serve {resource.plural}.{resource.group}: {TURN_ON}"
            ) from None
    traces = await presence.read_traces(client, namespace)
    if (stop := presence.stop_of(traces, moment())) is not None:
        progress(stop.message)
    if traces.deployment is not None and _is_off(traces.deployment):
        raise BindError(f"Deployment {traces.deployment.key} does not serve kbind v2: {TURN_ON}")


def _is_off(deployment: Object) -> bool:
    """Whether a Deployment of Fairlead's konnector is without kbind v2."""
    for container in _pod_spec(deployment).get("containers") or []:
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        if not any(words[at : at + 2] == _OUR_COMMAND for at in range(len(words))):
            continue
        protocols = [word.partition("=")[2] for word in words if word.startswith("--protocols")]
        spaced = words[words.index("--protocols") + 1 :][:1] if "--protocols" in words else []
        stated = [*protocols, *spaced] or [",".join(DEFAULT_PROTOCOLS)]
        return not any("v2" in text.split(",") for text in stated)
    return False


def _pod_spec(deployment: Object) -> JSON:
    template: JSON = (deployment.to_dict().get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


async def find_account(client: Client, namespace: str) -> JSON:
    """Return the subject that is the konnector's account, by its Deployment if there is one."""
    try:
        deployment = await find(client, DEPLOYMENTS, NAME, namespace)
    except ClientError:
        deployment = None
    name = _pod_spec(deployment).get("serviceAccountName") if deployment is not None else ""
    return konnector_account(namespace, name or NAME)


def provider_config(connection: JSON, secret: JSON) -> ClusterConfig:
    """Return the config of a Connection's provider, with everything in itself.

    Raises:
        BindError: the Secret has no kubeconfig, or one that no konnector uses.
    """
    name = key_of(connection).name
    kubeconfig = kubeconfig_of(connection, secret)
    if not kubeconfig:
        raise BindError(
            f"Secret {key_of(secret)} has no kubeconfig under the key that Connection {name} names"
        )
    try:
        return parse_kubeconfig(kubeconfig)
    except ConfigError as error:
        raise BindError(f"the kubeconfig of Connection {name} cannot be used: {error}") from None


class NeededRight(NamedTuple):
    """Verbs that a kubeconfig's account needs on a kind, in a namespace or everywhere ("")."""

    resource: Resource
    namespace: str
    verbs: Sequence[str]


_OBJECT_VERBS = (*READ_VERBS, "create", "patch", "delete")


def needed_rights(bindings: Sequence[JSON], more: Sequence[str] = ()) -> list[NeededRight]:
    """Return the rights at the provider that bindings need; ``more`` are APIs bound everywhere.

    Source: kbind v2, "Rights at the provider".
    """
    rights = [NeededRight(_resource(api), "", _OBJECT_VERBS) for api in more]
    for body in bindings:
        namespace = key_of(body).namespace
        rights += [NeededRight(_resource(api), namespace, _OBJECT_VERBS) for api in apis_of(body)]
        for item in msgspec.convert(body, ClusterBinding).spec.related_resources:
            verbs = _OBJECT_VERBS if item.direction == "FromConsumer" else READ_VERBS
            related = SECRETS if item.resource == SECRETS.plural else CONFIGMAPS
            rights.append(NeededRight(related, namespace, verbs))
    return list(dict.fromkeys(rights))


def _resource(api: str) -> Resource:
    plural, _, group = api.partition(".")
    # Rights are on resources of all versions.
    return Resource(group, "*", plural, "")


async def check_needed_rights(config: ClusterConfig, rights: Sequence[NeededRight]) -> None:
    """Raise unless a kubeconfig's account has the rights at the provider.

    A provider that does not tell is taken at its word later.

    Raises:
        BindError: rights are missing; names all of them.
    """
    missing: list[str] = []
    try:
        async with (
            asyncio.timeout(2 * ANSWER_SECONDS),
            Client(config, user_agent="fairlead-bind", timeouts=TIMEOUTS) as provider,
        ):
            for right in rights:
                key = Key(right.namespace, "")
                verbs = [
                    verb
                    for verb in right.verbs
                    if not await may(provider, right.resource, verb, key)
                ]
                if verbs:
                    where = f" in namespace {right.namespace}" if right.namespace else ""
                    missing.append(f"{', '.join(verbs)} on {right.resource.group_resource}{where}")
    except (ClientError, TimeoutError):
        return
    if missing:
        raise BindError(
            f"the provider {config.server} does not give the kubeconfig's account these rights: "
            f"{'; '.join(missing)}. Ask its team for them"
        )


async def look_at_provider(config: ClusterConfig, source: str) -> ProviderOffer:
    """Return identity and exports of a provider, with the rights of its kubeconfig.

    Args:
        config: the way to the provider.
        source: schema.source of the Connection.

    Raises:
        BindError: it does not answer in time, or does not let the kubeconfig read them.
        ClientError: it cannot be reached.
    """
    where = f"the provider {config.server}"
    try:
        async with (
            asyncio.timeout(2 * ANSWER_SECONDS),
            Client(config, user_agent="fairlead-bind", timeouts=TIMEOUTS) as provider,
        ):
            return await _offer(provider, source)
    except TimeoutError:
        raise BindError(f"{where} has not answered for {2 * ANSWER_SECONDS:g} s") from None
    except Unauthorized as error:
        raise BindError(
            f"{where} does not accept the kubeconfig's credentials: ask its team for a new "
            f"kubeconfig{error.clock_hint}"
        ) from None
    except Forbidden as error:
        raise BindError(
            f"{where} does not give the kubeconfig's account a right that a Connection needs: "
            f"{error}. Ask its team for it"
        ) from None


async def _offer(provider: Client, source: str) -> ProviderOffer:
    uid = await cluster_uid(provider)
    if source != "OpenAPI":
        listed = await provider.list(CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true")
        crds = {crd.meta.name: crd for crd in listed.items}
        if crds or source == "CRD":
            return ProviderOffer(uid, [api.name for api in exported_apis(crds.values())], crds)
    served = await provider.discovery.resources()
    names = {f"{one.plural}.{one.group}" for one in served if one.group and _is_custom(one.group)}
    return ProviderOffer(uid, sorted(names))


def _is_custom(group: str) -> bool:
    try:
        _check_kinds("", [f"x.{group}"])
    except BindError:
        return False
    return True


async def check_apart(client: Client, config: ClusterConfig, offer: ProviderOffer) -> None:
    """Raise if consumer and provider are one cluster, where objects and copies would be the same.

    Raises:
        BindError: they are.
        ClientError: the consumer's server cannot be reached.
    """
    try:
        mine = await cluster_uid(client)
    except Forbidden:
        return
    if mine == offer.uid:
        raise BindError(
            f"this cluster is the provider's own: {config.server} and {client.config.server} "
            "are the same cluster. Bind in the consumer's cluster, with its --kubeconfig or "
            "--context"
        )


async def check_connection(
    client: Client, body: JSON, offer: ProviderOffer, namespace: str
) -> None:
    """Raise if a Connection cannot be written, or is another than the one that is there.

    Args:
        client: a client of the consumer's cluster.
        body: the Connection that is to be.
        offer: what its provider offers.
        namespace: the konnector's.

    Raises:
        BindError: it cannot; the message has the remedy.
        ClientError: the server refused a look or cannot be reached.
    """
    name, place = key_of(body).name, secret_key(body)
    if place.namespace != namespace:
        raise BindError(
            f"Connection {name} names Secret {place}, but the konnector reads only Secrets of "
            f"its own namespace {namespace}: correct the file, or give the konnector's "
            "namespace with --namespace"
        )
    existing = await find(client, CONNECTIONS, name)
    if existing is None:
        return
    _check_there(existing, body, Connection, "--connection")
    uid = existing.decode(Connection).status.remote_cluster_uid
    if uid and offer.uid and uid != offer.uid:
        raise BindError(
            f"Connection {name} already exists and leads to cluster {uid}, but this kubeconfig "
            f"leads to {offer.uid}: give another name with --connection"
        )


def _check_there(existing: Object, body: JSON, type_: type, flag: str) -> None:
    title = f"{existing.kind} {existing.key}"
    if existing.meta.deleting:
        raise BindError(f"{title} is being deleted: bind again when it is gone")
    if not same(body, existing.to_dict(), type_):
        raise BindError(
            f"{title} already exists with another spec: give another name with {flag}, or "
            "change it with `kubectl edit`, and then run `fairlead accept`"
        )


async def check_secret(client: Client, connection: JSON, kubeconfig: bytes) -> bool:
    """Return whether the Secret of a Connection is to be written; never one of another's.

    A kubeconfig that works for the konnector stays, for it may be newer.

    Raises:
        BindError: a Secret of that name is there that is not the Connection's own.
        ClientError: the server refused a look or cannot be reached.
    """
    name, place = key_of(connection).name, secret_key(connection)
    secret = await find(client, SECRETS, place.name, place.namespace)
    if secret is None:
        return True
    key = msgspec.convert(connection, Connection).spec.kubeconfig_secret_ref.key
    if content(secret, key) == kubeconfig:
        return False
    users = {user.meta.name: user for user in await users_of(client, place)}
    if set(users) != {name}:
        others = ", ".join(sorted(users.keys() - {name}))
        whose = (
            f"Connection {others} uses it too"
            if others
            else (f"does not belong to Connection {name}")
        )
        raise BindError(
            f"Secret {place} already exists and {whose}, so it is not replaced: name another "
            "Connection with --connection"
        )
    return not is_true(stored_conditions(users[name].to_dict()), READY)


async def offer_of(client: Client, name: str) -> tuple[Object | None, ProviderOffer]:
    """Return a Connection of the cluster, and what it says of its provider.

    Who may not read Connections gets None and an offer of which nothing is known.

    Raises:
        BindError: there is no such Connection; the message names those that there are.
        ClientError: the server cannot be reached.
    """
    try:
        connection = await find(client, CONNECTIONS, name)
    except Forbidden:
        return None, ProviderOffer()
    if connection is None:
        names = [obj.meta.name for obj in await list_all(client, CONNECTIONS)]
        raise BindError(unknown(CONNECTIONS.kind, name, names))
    if connection.meta.deleting:
        raise BindError(f"Connection {name} is being deleted: bind with another one")
    parsed = connection.decode(Connection)
    status, pulls = parsed.status, parsed.spec.schema.pull_policy != "None"
    if not status.remote_cluster_uid:
        return connection, ProviderOffer(pulls=pulls)
    names = [api.name for api in status.exported_apis]
    return connection, ProviderOffer(status.remote_cluster_uid, names, pulls=pulls)


async def check_binding(
    client: Client, body: JSON, connection: JSON | None, offer: ProviderOffer
) -> None:
    """Raise if a binding cannot be made, or is another than the one that is there.

    Args:
        client: a client of the consumer's cluster.
        body: the ClusterBinding or Binding.
        connection: its Connection, None where it cannot be read.
        offer: what its provider offers.

    Raises:
        BindError: it cannot; the message has the remedy.
        ClientError: the server refused a look or cannot be reached.
    """
    key, apis = key_of(body), apis_of(body)
    resource = RESOURCES[body["kind"]]
    if key.namespace:
        await _check_namespace(client, key.namespace)
    await check_apis(client, f"{body['kind']} {key} binds", apis)
    for api in apis:
        if offer.apis is not None and api not in offer.apis:
            raise BindError(unknown("the provider's API", api, offer.apis) + _label_hint(offer))
        await _check_crd(client, api, body, connection, offer)
    _check_admitted(body, connection)
    existing = await find(client, resource, key.name, key.namespace)
    if existing is not None:
        _check_there(existing, body, ClusterBinding, "--name")


def _label_hint(offer: ProviderOffer) -> str:
    return f"; a provider labels what it offers {LABEL_EXPORTED}=true" if not offer.apis else ""


def _check_kinds(what: str, apis: Sequence[str], blame: str = BLAME) -> None:
    kinds = kinds_of(apis)
    check_kinds(what, kinds, blame=blame)
    for kind in kinds:
        if f".{kind.group}".endswith(".kbind.io") or kind.group == GROUP:
            raise BindError(f"{what} {kind.name}, a kind of kbind itself: {blame}")


async def check_apis(
    client: Client, what: str, apis: Sequence[str], *, blame: str = BLAME
) -> None:
    """Raise if an API is of the cluster itself, on which no rights are given.

    Args:
        client: a client of the consumer's cluster.
        what: subject and verb of the message, such as "ClusterBinding shop binds".
        apis: names of APIs.
        blame: the end of the message.

    Raises:
        BindError: one is.
        ClientError: the server refused a look or cannot be reached.
    """
    _check_kinds(what, apis, blame)
    await check_kinds_served(client, what, kinds_of(apis), blame=blame)


async def _check_namespace(client: Client, name: str) -> None:
    try:
        if await find(client, NAMESPACES, name) is None:
            raise BindError(f"namespace {name} does not exist: create it, or name another one")
    except Forbidden:
        return


async def _check_crd(
    client: Client, api: str, body: JSON, connection: JSON | None, offer: ProviderOffer
) -> None:
    """Raise if the CRD of an API is another's, or the provider's cannot be bound."""
    offered = offer.crds.get(api)
    if key_of(body).namespace and offered is not None and not crd_spec(offered).namespaced:
        raise BindError(
            f"{api} is cluster-scoped, so no Binding covers its objects: bind it with a "
            "ClusterBinding, without -n"
        )
    if connection is None:
        return
    try:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, api)
    except Forbidden:
        return
    owner = owner_of(crd)
    try:
        left = bool(owner) and await find(client, CONNECTIONS, owner) is None
    except Forbidden:
        left = False
    policy = msgspec.convert(connection, Connection).spec.schema
    plan = plan_crd(api, connection_name(body), policy, offered, crd, left=left)
    # Without the provider's CRD the konnector alone knows more than whose the one here is.
    is_known = offered is not None or (crd is not None and plan.fault is not None)
    waits = crd is not None and crd.meta.deleting
    if plan.fault is not None and is_known and not waits and not _is_unoffered(plan.fault.reason):
        raise BindError(plan.fault.message)


def _is_unoffered(reason: str) -> bool:
    return reason in {"APINotExported", PENDING}


def _check_admitted(body: JSON, connection: JSON | None) -> None:
    namespace = key_of(body).namespace
    annotations = (connection or {}).get("metadata", {}).get("annotations") or {}
    listed = annotations.get(ANNOTATION_BINDING_NAMESPACES)
    if namespace and listed is not None and namespace not in map(str.strip, listed.split(",")):
        raise BindError(
            f"Connection {connection_name(body)} does not admit Bindings in namespace "
            f"{namespace}: an administrator adds it to its annotation "
            f"{ANNOTATION_BINDING_NAMESPACES}"
        )


def check_roles(file: BindFile, ours: Sequence[JSON]) -> None:
    """Raise if a file has a role that bind does not write itself: a stranger's gives anything.

    Raises:
        BindError: it has; the message names it.
    """
    for role in file.roles:
        if _granted(role) not in map(_granted, ours):
            raise BindError(
                f"{role['kind']} {key_of(role)} in the file is not a role that `fairlead bind` "
                "writes: take it out, or read it and apply it separately"
            )


def _granted(role: JSON) -> tuple[Key, JSON]:
    fields = ("kind", "rules", "roleRef", "subjects")
    return key_of(role), {name: role[name] for name in fields if name in role}


async def check_writes(
    client: Client, bodies: Sequence[JSON], progress: Progress = lambda _line: None
) -> None:
    """Have the server check each write without making it.

    Args:
        client: a client of the consumer's cluster.
        bodies: what is to be created; a role that is there is changed.
        progress: called with what would be done for each.

    Raises:
        Forbidden: a right is missing; names it.
        ClientError: the server refuses a write, or cannot be reached.
    """
    absent: set[str] = set()
    for body in bodies:
        resource, key = RESOURCES[body["kind"]], key_of(body)
        title = f"{resource.kind} {key}"
        if key.namespace in absent:
            # Servers refuse objects in a namespace that is missing, also in a dry run.
            progress(f"{title} would be created")
            continue
        existing = await _existing(client, resource, key)
        if existing is not None:
            progress(await _difference(client, existing, body))
            continue
        await client.create(resource, body, key.namespace, dry_run=True)
        progress(f"{title} would be created")
        if resource == NAMESPACES:
            absent.add(key.name)


async def _existing(client: Client, resource: Resource, key: Key) -> Object | None:
    try:
        return await find(client, resource, key.name, key.namespace)
    except Forbidden:
        return None


async def _difference(client: Client, existing: Object, body: JSON) -> str:
    resource, key = RESOURCES[existing.kind], existing.key
    title = f"{resource.kind} {key}"
    if resource.kind not in ROLE_KINDS or regranted(existing, body) == existing.to_dict():
        return f"{title} is there"
    if not await may(client, resource, "update", key):
        raise BindError(f"{title} grants something else, and you may not update it")
    return f"{title} would be updated"
