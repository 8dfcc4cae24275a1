"""Removal of a consumer's access: its login, then its rights, as far as that is possible."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from fairlead.api.kubebind import BINDER_NAME
from fairlead.api.meta import Object
from fairlead.api.remains import count
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    NAMESPACES,
    ROLEBINDINGS,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import (
    Client,
    ClientError,
    ClusterConfig,
    Forbidden,
    NotFound,
    Unauthorized,
)
from fairlead.provider import bounds
from fairlead.provider.commands.revoke import belonging
from fairlead.provider.tokens import TOKEN_TYPE, TokenSecret, token_secrets
from fairlead.runtime.removal import Removal, each


class AccessRemoval:
    """Takes the access of a consumer's account away, even if a part of it fails.

    ``untaken`` has the errors of the parts that could not be removed, by part.

    Args:
        removal: operations on the cluster.
        consumer: the namespace of the account.
        owned: lists the other namespaces that were made for this consumer alone.
    """

    def __init__(
        self,
        removal: Removal,
        consumer: Object,
        owned: Callable[[], Awaitable[Sequence[Object]]],
    ) -> None:
        self.untaken: dict[str, str] = {}
        self._removal = removal
        self._client = removal.client
        self._consumer = consumer
        self._name = consumer.meta.name
        self._owned = owned

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Record an error of one part of the access, so that the other parts are still removed."""
        try:
            yield
        except ClientError as error:
            self.untaken[what] = str(error)
        else:
            self.untaken.pop(what, None)

    def left(self) -> str:
        """Return what could not be taken away, and what to do; "" if all was."""
        if not self.untaken:
            return ""
        parts = "; ".join(f"{what}: {why}" for what, why in self.untaken.items())
        return (
            f"the command could not remove all of its access ({parts}), and did not touch its "
            "data: fix that, or use other credentials, and run the command again to continue"
        )

    async def take(self) -> None:
        """Delete the login, then the rights: the login is a few requests, rights may be many."""
        tokens: list[TokenSecret] = []
        dead = gone = 0
        with self.noted(f"the tokens in namespace {self._name}"):
            # Listed before the account goes, which takes its tokens with it.
            tokens = token_secrets((await self._client.list(SECRETS, self._name)).items)
            dead = await self._removal.delete(SECRETS, [token.secret for token in tokens])
        with self.noted(f"ServiceAccount {self._name}/{BINDER_NAME}"), suppress(NotFound):
            gone = await self._take_account()
        # Servers remember for some seconds that a token was good, but not what it may do.
        rights = await self._take_rights()
        dead += await self._take_other_tokens()
        if rights or dead or gone:
            bindings = count(rights, "binding of rights", "bindings of rights")
            self._removal.progress(f"removed its access: {bindings}, {count(dead, 'token')}")
        self._removal.waiting = "the server to forget the tokens"
        for token in tokens:
            if token.token and not self.untaken:
                await _forgotten(self._client.config, token.token)
        self._removal.waiting = ""
        # While a server remembers the login or the rights, there may be new tokens.
        await self._take_other_tokens()

    async def _take_account(self) -> int:
        try:
            account = await self._client.get(SERVICEACCOUNTS, BINDER_NAME, self._name)
        except Forbidden:
            # A person may have the right to delete it without the right to read it.
            await self._client.delete(SERVICEACCOUNTS, BINDER_NAME, self._name)
            return 1
        return await self._removal.delete(SERVICEACCOUNTS, [account])

    async def _take_other_tokens(self) -> int:
        """Delete the tokens of other ServiceAccounts where the consumer could read or make them.

        The right to create Secrets in a namespace yields a token of any ServiceAccount there, and
        this token never expires.
        """
        taken = 0

        async def take_tokens(namespace: Object) -> None:
            nonlocal taken
            name = namespace.meta.name
            with self.noted(f"tokens of other ServiceAccounts in namespace {name}"):
                secrets = await self._client.list(
                    SECRETS, name, fields=f"type={TOKEN_TYPE}", metadata_only=True
                )
                taken += await self._removal.delete(SECRETS, secrets.items)

        with self.noted("tokens in the provider namespaces"):
            await each([self._consumer, *await self._owned()], take_tokens)
        return taken

    async def _take_rights(self) -> int:
        """Delete every binding that names the consumer, and the roles made for it alone."""
        taken = 0
        for resource in (ROLEBINDINGS, CLUSTERROLEBINDINGS):

            async def take_right(binding: Object, resource: Resource = resource) -> None:
                nonlocal taken
                with self.noted(f"{resource.kind} {binding.key}"):
                    await self._take_binding(resource, binding)
                    taken += 1

            with self.noted(f"{resource.kind}s"):
                listed = (await self._client.list(resource)).items
                await each([one for one in listed if belonging.names(one, self._name)], take_right)
        return taken

    async def _take_binding(self, resource: Resource, binding: Object) -> None:
        kind, key = belonging.role_of(binding)
        others = belonging.without_subject(binding, self._name)
        if others is not None:
            await self._removal.change(
                resource, [binding], lambda subject: belonging.without_subject(subject, self._name)
            )
            return
        # The role first, for its binding leads to it when this is repeated.
        with self.noted(f"{kind.kind} {key}"), suppress(NotFound):
            role = await self._client.get(kind, key.name, key.namespace)
            if belonging.is_managed(role):
                await self._removal.delete(kind, [role])
        await self._removal.delete(resource, [binding])


async def _forgotten(config: ClusterConfig, token: str) -> None:
    """Wait until a server refuses a token whose Secret is gone.

    kube-apiserver caches the result of authentication for some seconds. A 403 is no refusal of the
    token: it is still valid, and a controller may grant a right again.
    """
    theirs = replace(
        config,
        token=token,
        token_file="",
        username="",
        password="",
        client_certificate=b"",
        client_key=b"",
        exec_plugin=None,
        impersonation=None,
    )
    async with Client(theirs, user_agent="fairlead") as client:
        while True:
            try:
                await client.list(NAMESPACES, limit=1)
            except Unauthorized:
                return
            except Forbidden:
                pass
            await asyncio.sleep(bounds.TOKEN_PAUSE_SECONDS)
