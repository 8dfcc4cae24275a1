"""Binds APIs by kbind v2 in the consumer's cluster, and waits until they are bound.

Both clusters are checked first, and then objects are written: the Connection, which makes the
Secret of its name its own, the roles, the bindings, and the Secret last, which lets a konnector
begin. Killed in between, the next run writes what is missing. A bind that fails or is stopped is
taken back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from fairlead.api.kbind import Connection
from fairlead.api.kbind.bindfile import BindFile, key_of, kubeconfig_of, secret_key
from fairlead.api.kbind.names import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.rights import user_roles
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import SECRETS
from fairlead.client import AlreadyExists, Client, Conflict, Forbidden
from fairlead.client.lookups import find
from fairlead.konnector.commands.consumer_objects import (
    disown,
    ensure_namespace,
    write_roles,
)
from fairlead.konnector.commands.readiness import Deadline, WaitOptions, within
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.commands.v2.checks import (
    ProviderOffer,
    check_apart,
    check_apis,
    check_binding,
    check_connection,
    check_konnector,
    check_needed_rights,
    check_roles,
    check_secret,
    check_writes,
    find_account,
    look_at_provider,
    needed_rights,
    offer_of,
    provider_config,
)
from fairlead.konnector.commands.v2.estate import remove_roles, user_role_keys
from fairlead.konnector.commands.v2.plan import (
    RESOURCES,
    apis_of,
    connection_name,
    konnector_account,
    marked,
    roles_of_binding,
    roles_of_connection,
    user_roles_of_binding,
)
from fairlead.konnector.commands.v2.targets import KbindTarget
from fairlead.konnector.commands.v2.undo import BindWrites, undone_on_failure
from fairlead.konnector.commands.v2.waiting import until_ready, until_served, until_steady
from fairlead.konnector.options import DEFAULT_NAMESPACE


class KbindOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a bind by kbind v2.

    ``timeout`` is in seconds for all of it, ``namespace`` the konnector's, and ``user_roles`` says
    whether people with view, edit or admin get rights on the bound kinds. ``progress`` is called
    with each step.
    """

    timeout: float = 120.0
    namespace: str = DEFAULT_NAMESPACE
    user_roles: bool = True
    progress: Progress = lambda _line: None


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Bindings that are Ready, and all objects that belong to them, the Secret among them."""

    targets: list[KbindTarget]
    objects: list[JSON]


def planned(file: BindFile, options: KbindOptions) -> list[JSON]:
    """Return the objects of a bind, for which no server is asked.

    Raises:
        BindError: the file binds nothing, or has a role that is not bind's own.
    """
    work = _Plan(marked(file), konnector_account(options.namespace), {}, options)
    check_roles(file, work.roles())
    return work.objects()


async def bind_kbind(client: Client, file: BindFile, options: KbindOptions) -> Bound:
    """Bind what a file has, and wait until all of it is Ready.

    Doing it again changes nothing. A bind that fails or is cancelled leaves no rights, no binding
    and no unused Secret.

    Args:
        client: a client of the consumer's cluster; without an administrator's rights the roles
            have to be there.
        file: Secrets, Connections and bindings.
        options: how.

    Raises:
        BindError: the file cannot be used, a cluster is not as it has to be, or it took too long;
            the message says what was waited for and what to do.
        ClientError: a server refused or cannot be reached.
    """
    written = BindWrites(options.namespace)
    work = _Bind(client, file, options, written)
    async with undone_on_failure(client, written, options.progress):
        return await within(options.timeout, work.run(), lambda: work.doing)


async def rehearse(client: Client, file: BindFile, options: KbindOptions) -> list[JSON]:
    """Check all that a bind checks, and have the server check its writes; return the objects.

    Raises:
        BindError: a bind would fail; the message says why.
        ClientError: a server would refuse, or cannot be reached.
    """
    work = _Bind(client, file, options, BindWrites(options.namespace))
    plan = await within(options.timeout, work.check(), lambda: work.doing)
    await check_writes(client, [*plan.namespaces(), *plan.objects()], options.progress)
    return plan.objects()


class _Plan:
    """The objects of one bind, and the roles that belong to them."""

    def __init__(
        self,
        file: BindFile,
        account: JSON,
        offers: Mapping[str, ProviderOffer],
        options: KbindOptions,
    ) -> None:
        self.file = file
        self.secrets = list(file.secrets)
        """The Secrets that are to be written; others are there and stay."""
        self._account = account
        self._offers = offers
        self._options = options
        if not file.bindings and not any(map(_is_automatic, file.connections)):
            raise BindError(
                "nothing would be bound: name APIs with --api, or bind everything that the "
                "provider exports with --all"
            )

    def roles(self) -> list[JSON]:
        """Return the konnector's roles, and those of people if they are wanted."""
        roles: list[JSON] = []
        for body in self.file.connections:
            offer = self._offers.get(key_of(body).name, ProviderOffer())
            roles += roles_of_connection(body, offer.apis or ())
            if _is_automatic(body) and offer.apis and self._options.user_roles:
                roles += user_roles(key_of(body).name, offer.apis)
        for body in self.file.bindings:
            roles += roles_of_binding(body, self._account)
            if self._options.user_roles and self._is_pulled(body):
                roles += user_roles_of_binding(body)
        return roles

    def _is_pulled(self, binding: JSON) -> bool:
        """Whether the konnector makes the CRDs of a binding; a user's own have their roles."""
        name = connection_name(binding)
        for body in self.file.connections:
            if key_of(body).name == name:
                return msgspec.convert(body, Connection).spec.schema.pull_policy != "None"
        offer = self._offers.get(name)
        return offer is None or offer.pulls

    def namespaces(self) -> list[JSON]:
        """Return the konnector's namespace, if a Secret is written there."""
        metadata = {"name": self._options.namespace}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        return [body] if self.file.connections else []

    def objects(self) -> list[JSON]:
        """Return all objects in the order in which they are written.

        The konnector's namespace is none of them: who deletes the file would delete the konnector.
        """
        return [
            *self.file.connections,
            *self.roles(),
            *self.file.bindings,
            *self.secrets,
        ]


def _is_automatic(connection: JSON) -> bool:
    return msgspec.convert(connection, Connection).spec.auto_bind


class _Bind:
    """One run: the objects, both clusters, and the progress."""

    def __init__(
        self, client: Client, file: BindFile, options: KbindOptions, written: BindWrites
    ) -> None:
        self.doing = f"looking at this cluster, {client.config.server}"
        self._client = client
        self._given = file
        self._file = marked(file)
        self._options = options
        self._progress = options.progress
        self._written = written
        self._deadline = Deadline(options.timeout)

    async def run(self) -> Bound:
        plan = await self.check()
        self.doing = "checking what may be written into this cluster"
        is_admin = bool(self._file.connections)
        writable = await self._writable(plan, is_admin=is_admin)
        self.doing, self._written.file = "writing into this cluster", self._file
        await self._write(plan, writable)
        if len(writable) == len(plan.roles()):
            targets = await self._wait(plan, until_ready)
        else:
            targets = await self._wait_for_roles(plan)
        return Bound(targets=targets, objects=plan.objects())

    async def check(self) -> _Plan:
        """Check both clusters; return the objects that are to be written.

        Raises:
            BindError: something is not as it has to be.
            ClientError: a server refused or cannot be reached.
        """
        client, options = self._client, self._options
        await check_konnector(client, options.namespace, self._progress)
        account = await find_account(client, options.namespace)
        self._check_secrets()
        offers: dict[str, ProviderOffer] = {}
        connections: dict[str, JSON | None] = {}
        staying: list[Key] = []
        for body in self._file.connections:
            name = key_of(body).name
            offers[name], stays = await self._look_at(body)
            connections[name] = body
            staying += [secret_key(body)] if stays else []
        for body in self._file.bindings:
            name = connection_name(body)
            if name not in offers:
                there, offers[name] = await offer_of(client, name)
                connections[name] = there.to_dict() if there is not None else None
            self.doing = f"looking at {body['kind']} {key_of(body)}"
            await check_binding(client, body, connections[name], offers[name])
        await self._check_rights(offers)
        plan = _Plan(self._file, account, offers, options)
        plan.secrets = [secret for secret in plan.secrets if key_of(secret) not in staying]
        check_roles(self._given, plan.roles())
        return plan

    async def _check_rights(self, offers: Mapping[str, ProviderOffer]) -> None:
        """Raise if a kubeconfig of the file has no right on what is bound by it."""
        for body in self._file.connections:
            secret = self._file.secret_of(body)
            if secret is None:
                continue
            name = key_of(body).name
            bindings = [one for one in self._file.bindings if connection_name(one) == name]
            more = (offers[name].apis or ()) if _is_automatic(body) else ()
            rights = needed_rights(bindings, more)
            await check_needed_rights(provider_config(body, secret), rights)

    def _check_secrets(self) -> None:
        named = {secret_key(body) for body in self._file.connections}
        for secret in self._given.secrets:
            if key_of(secret) not in named:
                raise BindError(
                    f"no Connection of the file names Secret {key_of(secret)}: take it out of "
                    "the file"
                )

    async def _look_at(self, body: JSON) -> tuple[ProviderOffer, bool]:
        """Return what the provider of a Connection offers, and whether its Secret stays."""
        client, name = self._client, key_of(body).name
        secret = self._file.secret_of(body)
        if secret is None:
            there, offer = await self._there(body)
            await check_connection(client, there, offer, self._options.namespace)
            return offer, True
        config = provider_config(body, secret)
        self.doing = f"looking at the provider of Connection {name}, {config.server}"
        source = msgspec.convert(body, Connection).spec.schema.source
        offer = await look_at_provider(config, source)
        await check_apart(client, config, offer)
        await check_connection(client, body, offer, self._options.namespace)
        if _is_automatic(body):
            await check_apis(client, f"Connection {name} binds", offer.apis or ())
        kubeconfig = kubeconfig_of(body, secret)
        return offer, not await check_secret(client, body, kubeconfig)

    async def _there(self, body: JSON) -> tuple[JSON, ProviderOffer]:
        """Return a Connection whose Secret is in the cluster, and what is known of its provider.

        Raises:
            BindError: the Secret is not there.
        """
        place = secret_key(body)
        if await find(self._client, SECRETS, place.name, place.namespace) is None:
            raise BindError(
                f"neither the file nor this cluster has Secret {place} with the kubeconfig, "
                f"which Connection {key_of(body).name} names"
            )
        existing = await find(self._client, CONNECTIONS, key_of(body).name)
        if existing is None:
            return body, ProviderOffer()
        _, offer = await offer_of(self._client, existing.meta.name)
        return body, offer

    async def _writable(self, plan: _Plan, *, is_admin: bool) -> list[JSON]:
        """Return the roles that the caller may write, once all other writes were checked.

        Who binds by a Connection that is there may have no right on roles, which an administrator
        has given the konnector before.
        """
        roles = plan.roles()
        others = [body for body in plan.objects() if body not in roles]
        others = [*plan.namespaces(), *others]
        await check_writes(self._client, others)
        if is_admin:
            await check_writes(self._client, roles)
            return roles
        writable: list[JSON] = []
        for role in roles:
            try:
                await check_writes(self._client, [role])
            except Forbidden as error:
                self._progress(
                    f"{role['kind']} {key_of(role)} is not written: {error}. An administrator has "
                    "to write it: the same command with --dry-run=client -o yaml prints it"
                )
            else:
                writable.append(role)
        return writable

    async def _write(self, plan: _Plan, roles: list[JSON]) -> None:
        client, progress = self._client, self._progress
        if self._file.connections:
            await ensure_namespace(client, self._options.namespace, progress)
        for body in self._file.connections:
            await self._create(body)
        self._written.roles += await write_roles(client, roles, progress)
        if not self._options.user_roles:
            for body in self._file.bindings:
                target = _target(body)
                await remove_roles(client, target, progress, user_role_keys(target))
        for body in self._file.bindings:
            await self._create(body)
        for secret in self._file.secrets:
            await self._put_secret(secret, replaces=secret in plan.secrets)

    async def _create(self, body: JSON) -> None:
        target = _target(body)
        resource, key = target.resource, target.key
        if await find(self._client, resource, key.name, key.namespace) is not None:
            return
        try:
            created = await self._client.create(resource, body, key.namespace)
        except AlreadyExists:
            # Another bind was faster; what it wrote is waited for.
            return
        self._written.uids.add(created.meta.uid)
        self._progress(f"created {target.title}")

    async def _put_secret(self, body: JSON, *, replaces: bool) -> None:
        """Write a Secret that is the Connection's own, as was checked."""
        client, key = self._client, key_of(body)
        # An unbind may have left it to the garbage collector, by an owner that is gone.
        secret = await find(client, SECRETS, key.name, key.namespace)
        secret = await disown(client, SECRETS, secret)
        if secret is None:
            created = await client.create(SECRETS, body, key.namespace)
            self._written.uids.add(created.meta.uid)
            self._progress(f"created Secret {key}")
            return
        data = {**(secret.to_dict().get("data") or {}), **body["data"]}
        if not replaces or data == secret.to_dict().get("data"):
            return
        try:
            await client.update(SECRETS, {**secret.to_dict(), "data": data})
        except Conflict:
            raise BindError(f"Secret {key} was changed meanwhile: bind again") from None
        self._progress(f"replaced the kubeconfig in Secret {key}")

    async def _wait_for_roles(self, plan: _Plan) -> list[KbindTarget]:
        """Wait for bindings whose roles an administrator has to have written.

        Without them the bindings stay, for an administrator to accept: a konnector without rights
        could not take them apart either.
        """
        self._written.file = None
        try:
            return await self._wait(plan, until_steady)
        except BindError as error:
            targets = [_target(body) for body in plan.file.bindings]
            accept = " and ".join(f"`fairlead accept {target.text}`" for target in targets)
            unbind = " and ".join(f"`fairlead unbind {target.text}`" for target in targets)
            raise BindError(
                f"{error}. It stays, and becomes Ready once an administrator has run {accept}; "
                f"{unbind} removes it"
            ) from None

    async def _wait(
        self, plan: _Plan, until: Callable[[WaitOptions, KbindTarget], Awaitable[None]]
    ) -> list[KbindTarget]:
        waiting = WaitOptions(
            self._client, self._deadline, self._progress, self._options.namespace
        )
        for body in self._file.connections:
            self.doing = f"waiting for {_target(body).title}"
            await until_ready(waiting, _target(body))
        targets = [_target(body) for body in plan.file.bindings]
        targets += [
            KbindTarget(CLUSTERBINDINGS, key_of(body))
            for body in plan.file.connections
            if _is_automatic(body)
        ]
        for target in targets:
            self.doing = f"waiting for {target.title}"
            await until(waiting, target)
        for body in plan.file.bindings:
            for api in apis_of(body):
                await self._served(waiting, api)
        return targets

    async def _served(self, waiting: WaitOptions, api: str) -> None:
        try:
            await until_served(waiting, api)
        except Forbidden:
            # Who may read no CRDs has the konnector's word alone.
            return


def _target(body: JSON) -> KbindTarget:
    return KbindTarget(RESOURCES[body["kind"]], key_of(body))
