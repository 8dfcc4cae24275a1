"""Invitation of a consumer by kbind v2: its account and rights, and the file with which it binds.

A second invitation gives the same file, with all that it adds. Each write says what the next ones
are for, so that a revocation also finds those of an invitation that was interrupted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from fairlead.api.addresses import is_loopback
from fairlead.api.decoding import field_message
from fairlead.api.definitions import CRDSpec, crd_spec
from fairlead.api.kbind import files
from fairlead.api.kbind import rights as consumer_rights
from fairlead.api.kbind.names import (
    GROUP,
    LABEL_EXPORTED,
    LABEL_MANAGED,
    LEASE_NAMESPACE,
)
from fairlead.api.kubebind import bindable
from fairlead.api.label_names import is_label
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS, NAMESPACES
from fairlead.client import AlreadyExists, Client, Conflict
from fairlead.client.lookups import find
from fairlead.provider.credentials import ensure, ensure_credentials
from fairlead.provider.identity import InviteError
from fairlead.provider.options import InviteOptions
from fairlead.provider.v2.reading import (
    cluster_uids,
    leases_of,
    read_record,
    record_in,
    recorded,
)
from fairlead.provider.v2.record import (
    ANNOTATION_MADE,
    LABEL_CONSUMER,
    KbindInvitation,
    consumer_of,
    foreign,
    home_body,
    home_of,
    record_body,
    reserved,
)
from fairlead.provider.v2.rights import rights
from fairlead.runtime import commit


Progress = Callable[[str], None]

KONNECTOR_ACCOUNT = "konnector"
"""Name of the konnector's ServiceAccount in the consumer's cluster, as its manifests have it."""
KONNECTOR_NAMESPACE = "kube-bind"
"""Namespace of the konnector in the consumer's cluster, unless an invitation names another."""


async def invite(
    client: Client,
    *,
    name: str,
    request: KbindInvitation,
    existing_namespaces: bool = False,
    options: InviteOptions | None = None,
    progress: Progress,
) -> list[JSON]:
    """Invite a consumer by kbind v2; return the objects of its file, which have a credential.

    Args:
        client: a client of the provider's cluster, with an administrator's rights.
        name: the consumer's name.
        request: APIs and namespaces; they are added to those of a former invitation. Without a
            namespace and without the whole cluster, a first invitation is for namespace ``name``.
        existing_namespaces: also use existing namespaces without a mark of another consumer.
        options: the consumer's access to the provider; empty fields stay as they were.
        progress: called with lines for the person who invites.

    Raises:
        InviteError: the invitation cannot be given; the message says what to do.
        ApiError: the server refused.
    """
    work = _Invitation(client, name, options or InviteOptions(), progress)
    return await work.run(request, existing_namespaces=existing_namespaces)


def file_of(invitation: KbindInvitation, kubeconfig: bytes) -> list[JSON]:
    """Return the objects to apply in the consumer's cluster.

    The namespaces of Bindings are not among them, since deleting the file would delete them with
    all that they have.
    """
    name, konnector = invitation.connection, invitation.konnector_namespace
    apis, related = invitation.apis, invitation.related_resources
    account = {"kind": "ServiceAccount", "name": KONNECTOR_ACCOUNT, "namespace": konnector}
    documents = [
        files.kubeconfig_secret(name, kubeconfig, namespace=konnector),
        files.connection(name, namespace=konnector),
    ]
    if invitation.whole_cluster:
        documents += consumer_rights.cluster_binding_roles(name, apis)
        return [*documents, files.binding(name, apis, connection=name)]
    for namespace in invitation.namespaces:
        documents += consumer_rights.binding_roles(
            name, namespace, apis, related, konnector=account
        )
        documents.append(
            files.binding(name, apis, connection=name, namespace=namespace, related=related)
        )
    return documents


class _Invitation:
    def __init__(
        self, client: Client, name: str, options: InviteOptions, progress: Progress
    ) -> None:
        self._client = client
        self._name = name
        self._home = home_of(name)
        self._options = options
        self._say = progress

    async def run(self, request: KbindInvitation, *, existing_namespaces: bool) -> list[JSON]:
        former = await recorded(self._client, self._home)
        wish = self._wish(former, request)
        crds = [await self._crd(api, wish) for api in wish.apis]
        clusters = cluster_uids(await leases_of(self._client, self._home))
        # Looked at before anything is written.
        for namespace in wish.namespaces:
            await self._look_at(namespace, wish, clusters, existing_namespaces=existing_namespaces)
        await self._ensure_home()
        # Rights and namespaces are recorded before they are made.
        wish = await self._record(request)
        for crd in crds:
            await self._offer(crd)
        for namespace in wish.namespaces:
            await self._ensure_namespace(
                namespace, wish, clusters, existing_namespaces=existing_namespaces
            )
        labels = {LABEL_MANAGED: "true"}
        await self._create_namespace({"name": LEASE_NAMESPACE, "labels": labels})
        kubeconfig, server = await ensure_credentials(
            self._client, self._home, self._options, _rights_of(wish)
        )
        self._warn(wish, server)
        return file_of(wish, kubeconfig)

    def _wish(self, former: KbindInvitation, request: KbindInvitation) -> KbindInvitation:
        """Return the invitation that there will be.

        Raises:
            InviteError: it names no API, mixes both scopes, or is for no possible namespace.
        """
        if former.revoked:
            raise InviteError(
                f"{self._name} is being revoked: finish that with `fairlead provider revoke "
                f"{self._name}`, and invite it then"
            )
        for flag, old, new in (
            ("--name", former.connection, request.connection),
            ("--konnector-namespace", former.konnector_namespace, request.konnector_namespace),
        ):
            if old and new not in {"", old}:
                raise InviteError(
                    f"{self._name} was invited with {flag} {old}, and its objects exist in its "
                    "cluster on these terms: leave the flag out, or revoke it first"
                )
        wish = former.extended(request)
        if not wish.apis:
            raise InviteError("give the APIs that the consumer may use: --api PLURAL.GROUP")
        wish = msgspec.structs.replace(
            wish,
            # Two providers of one consumer have different groups, and so no object in common.
            connection=wish.connection or wish.apis[0].partition(".")[2],
            konnector_namespace=wish.konnector_namespace or KONNECTOR_NAMESPACE,
        )
        if not wish.whole_cluster and not wish.namespaces:
            if not is_label(self._name):
                raise InviteError(
                    f"{self._name} is not a valid name of a namespace: give one with --namespace"
                )
            wish = msgspec.structs.replace(wish, namespaces=(self._name,))
        if wish.whole_cluster and (wish.namespaces or wish.related):
            what = f"namespaces {', '.join(wish.namespaces)}" if wish.namespaces else "--related"
            raise InviteError(
                f"--whole-cluster excludes {what}: choose one of them. To change a consumer "
                "from one to the other, revoke it first; related resources of a whole cluster "
                "would be the Secrets or ConfigMaps of all its users"
            )
        return wish

    async def _crd(self, api: str, wish: KbindInvitation) -> Object:
        """Return the CRD of an API that can be bound.

        Raises:
            InviteError: it cannot; the message says why.
        """
        group = api.partition(".")[2]
        if not bindable(group) or group == GROUP:
            raise InviteError(
                f"{api} is a kind of Kubernetes or kube-bind, which no consumer can bind"
            )
        crd = await find(self._client, CUSTOMRESOURCEDEFINITIONS, api)
        if crd is None:
            raise InviteError(
                f"there is no CustomResourceDefinition {api}: look with `kubectl get crd`"
            )
        try:
            spec = crd_spec(crd)
        except msgspec.ValidationError as error:
            raise InviteError(
                f"CustomResourceDefinition {api} is not valid: {field_message(error)}"
            ) from None
        if not spec.served:
            raise InviteError(f"CustomResourceDefinition {api} serves no version")
        if not spec.namespaced and not wish.whole_cluster:
            raise InviteError(
                f"{api} is cluster-scoped: it needs --whole-cluster, with which the consumer "
                "reads and writes all objects of the API, also those of others"
            )
        self._warn_of_conversion(api, spec)
        return crd

    def _warn_of_conversion(self, api: str, spec: CRDSpec) -> None:
        if spec.conversion is not None and spec.conversion.strategy == "Webhook":
            self._say(
                f"warning: a webhook converts {api}, and no konnector of kbind v2 binds such "
                "an API"
            )

    async def _look_at(
        self,
        name: str,
        wish: KbindInvitation,
        clusters: set[str],
        *,
        existing_namespaces: bool,
    ) -> Object | None:
        """Return a namespace that the consumer may get, None if it does not exist.

        Raises:
            InviteError: it may not get it.
        """
        if reason := reserved(name, konnector_namespace=wish.konnector_namespace):
            raise InviteError(f"namespace {name} cannot be a consumer's: {reason}")
        namespace = await find(self._client, NAMESPACES, name)
        if namespace is None:
            return None
        if reason := foreign(namespace, self._home, clusters):
            raise InviteError(f"namespace {name} cannot be {self._name}'s: {reason}")
        if namespace.meta.deleting:
            raise InviteError(f"namespace {name} is being deleted: try again when it is gone")
        is_ours = namespace.meta.labels.get(LABEL_CONSUMER) == self._home
        if not is_ours and not existing_namespaces:
            raise InviteError(
                f"namespace {name} exists, and was not made for {self._name}, which would read "
                f"and write all objects of {', '.join(wish.apis)} in it: give another "
                "--namespace, or --existing-namespaces if you intend this"
            )
        return namespace

    async def _ensure_home(self) -> None:
        body = home_body(self._name)
        try:
            home = await self._client.create(NAMESPACES, body)
        except AlreadyExists:
            home = await self._client.get(NAMESPACES, self._home)
        if consumer_of(home) != self._name:
            raise InviteError(
                f"namespace {self._home} exists and was not made for {self._name}: delete it, "
                "or invite the consumer under another name"
            )
        if home.meta.deleting:
            raise InviteError(
                f"namespace {self._home} of {self._name} is being deleted: try again when it is "
                "gone"
            )

    async def _record(self, request: KbindInvitation) -> KbindInvitation:
        """Add to the record, and return the invitation that it has then."""
        while True:
            stored = await record_in(self._client, self._home)
            wish = self._wish(read_record(stored, self._home), request)
            body = record_body(self._home, wish)
            with suppress(AlreadyExists, Conflict):
                if stored is None:
                    await self._client.create(CONFIGMAPS, body)
                else:
                    live = stored.to_dict() | {"data": body["data"]}
                    await commit(self._client, CONFIGMAPS, stored, live)
                return wish

    async def _offer(self, crd: Object) -> None:
        """Label a CRD as offered, without which no konnector binds it."""
        if crd.meta.labels.get(LABEL_EXPORTED) == "true":
            return
        labels = {"metadata": {"labels": {LABEL_EXPORTED: "true"}}}
        await self._client.merge_patch(CUSTOMRESOURCEDEFINITIONS, crd.meta.name, "", labels)
        self._say(
            f"customresourcedefinition/{crd.meta.name} is labelled {LABEL_EXPORTED}=true, which "
            "offers it to consumers that have rights on it"
        )

    async def _ensure_namespace(
        self,
        name: str,
        wish: KbindInvitation,
        clusters: set[str],
        *,
        existing_namespaces: bool,
    ) -> None:
        """Create a namespace for the consumer's objects, or mark an existing one."""
        metadata = {
            "name": name,
            "labels": {LABEL_CONSUMER: self._home},
            "annotations": {ANNOTATION_MADE: self._name},
        }
        if await self._create_namespace(metadata):
            self._say(f"namespace/{name} is created for {self._name}")
            return
        while True:
            namespace = await self._look_at(
                name, wish, clusters, existing_namespaces=existing_namespaces
            )
            if namespace is None:
                raise InviteError(f"namespace {name} was deleted meanwhile: try again")
            body = namespace.to_dict()
            body["metadata"].setdefault("labels", {})[LABEL_CONSUMER] = self._home
            # Of two invitations that mark one namespace the server refuses the second.
            with suppress(Conflict):
                if await commit(self._client, NAMESPACES, namespace, body) is not namespace:
                    self._say(f"namespace/{name} belongs to {self._name} from now on")
                return

    async def _create_namespace(self, metadata: JSON) -> bool:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        if await find(self._client, NAMESPACES, metadata["name"]) is not None:
            return False
        try:
            await self._client.create(NAMESPACES, body)
        except AlreadyExists:
            return False
        return True

    def _warn(self, wish: KbindInvitation, server: str) -> None:
        if server not in {self._options.external_address, self._client.config.server}:
            self._say(
                f"{self._name} keeps reaching this cluster at {server}, as it was invited before; "
                "--external-address changes that"
            )
        if is_loopback(urlsplit(server).hostname or ""):
            self._say(
                f"{self._name} gets {server}, which in a Pod is the Pod itself: for a konnector "
                "in a cluster invite with --external-address https://HOST:6443"
            )
        if wish.whole_cluster:
            self._say(
                f"warning: {self._name} reads and writes all objects of {', '.join(wish.apis)} "
                "in this cluster. Names are the same on both sides: consumers that share this "
                "provider see each other's objects and namespaces"
            )
        if "secrets/FromConsumer" in wish.related:
            self._say(
                f"warning: {self._name} may create Secrets in {', '.join(wish.namespaces)}, "
                "and thus get a token of any ServiceAccount there: give these ServiceAccounts "
                "no rights"
            )


def _rights_of(wish: KbindInvitation) -> Callable[[Client, str], Awaitable[None]]:
    async def grant(client: Client, home: str) -> None:
        for resource, body in rights(home, wish):
            await ensure(client, resource, body, "rules" if "rules" in body else "subjects")

    return grant
