"""Steps of a rotation of a consumer's credentials; a second run continues an interrupted one.

New credentials are tested before the konnector can fetch them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp

from fairlead.api.kubebind import CLUSTER_BINDING_NAME, CLUSTERBINDINGS, kubeconfig_digest
from fairlead.api.meta import Object
from fairlead.api.resource import SECRETS
from fairlead.client import (
    ApiError,
    Client,
    ConfigError,
    ConnectionFailed,
    NotFound,
    Unauthorized,
    parse_kubeconfig,
)
from fairlead.client.lookups import WaitTimeout, find, wait_for
from fairlead.provider import bounds
from fairlead.provider.commands.rotation.reconcile import missing, reconcile, silent, tells
from fairlead.provider.credentials import (
    as_before,
    consumer_kubeconfig,
    make_token,
    store_kubeconfig,
    stored_kubeconfig,
)
from fairlead.provider.konnectors import is_original
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of
from fairlead.provider.options import InviteOptions
from fairlead.provider.tokens import ANNOTATION_TOKEN_MADE, TokenSecret, token_secrets
from fairlead.provider.v2.record import consumer_of


class ProbeError(Exception):
    """The credentials do not work; the text gives the reason."""


class NotReachedError(Exception):
    """The address cannot be reached from this machine; the text gives the reason."""


Trial = Callable[[Client, str], Awaitable[object]]
"""Reads by a consumer's client what its konnector reads; it takes the namespace of its account."""


async def _cluster_binding(client: Client, namespace: str) -> Object:
    return await client.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace)


async def probe(kubeconfig: bytes, trial: Trial = _cluster_binding) -> None:
    """Test a consumer's kubeconfig with a request that its konnector makes.

    Args:
        kubeconfig: the kubeconfig.
        trial: the request.

    Raises:
        ProbeError: the kubeconfig does not work.
        NotReachedError: the address cannot be reached from here, which proves nothing.
    """
    try:
        config = parse_kubeconfig(kubeconfig)
    except ConfigError as error:
        raise ProbeError(str(error)) from None
    try:
        async with (
            asyncio.timeout(bounds.CREDENTIALS_SECONDS),
            Client(config, user_agent="fairlead") as client,
        ):
            await _try_credentials(client, config.namespace, trial)
    except TimeoutError:
        raise NotReachedError(
            f"{config.server} does not answer within {bounds.CREDENTIALS_SECONDS:g} s"
        ) from None
    except ConnectionFailed as error:
        # A certificate that does not fit is a fault of the kubeconfig. No connection at all may
        # only mean that the address is not for here.
        if isinstance(error.__cause__, aiohttp.ClientSSLError):
            raise ProbeError(str(error)) from None
        raise NotReachedError(str(error)) from None
    except ApiError as error:
        raise ProbeError(f"{config.server} says: {error}") from None


async def _try_credentials(client: Client, namespace: str, trial: Trial) -> None:
    """Read the objects that every konnector reads; a new token may not be known everywhere yet."""
    loop = asyncio.get_running_loop()
    until = loop.time() + bounds.CREDENTIALS_SECONDS / 2
    while True:
        try:
            await trial(client, namespace)
        except Unauthorized:
            if loop.time() > until:
                raise
        else:
            return
        await asyncio.sleep(bounds.CREDENTIALS_PAUSE_SECONDS)


Progress = Callable[[str], None]

_BOTH = (
    "can fetch a new token, and both tokens are valid. Run the command again to go on waiting "
    "for its konnector, or add --finish to delete the old token even if something still uses it"
)
_USED = (
    "uses the new token, and the old one may still be valid. Run the command again to delete "
    "the old one"
)


class RotateError(Exception):
    """The rotation is unfinished; the text tells its state and how to go on."""


async def rotate(
    client: Client,
    consumer: Object,
    *,
    options: InviteOptions,
    timeout: float,  # noqa: ASYNC109
    finish: bool,
    progress: Progress,
) -> None:
    """Give a consumer a new token and take the old one away once its konnector uses the new.

    Args:
        client: with an administrator's rights.
        consumer: its cluster namespace.
        options: the consumer's access to the provider from now on; empty fields stay as they are.
        timeout: for how many seconds to wait for the konnector.
        finish: delete the old token without a report of the konnector.
        progress: called with each step.

    Raises:
        RotateError: the old token had to stay.
        InviteError: the cluster makes no token.
        ApiError: the server refused.
    """
    work = Rotation(client, consumer, options, progress)
    try:
        kubeconfig = await work.hand_out(finish=finish)
        if not finish:
            await work.taken_over(kubeconfig, timeout)
        await work.take_away()
    except asyncio.CancelledError:
        progress(work.interrupted())
        raise
    if finish:
        progress(
            "earlier invitations do not work any more; for a new one, invite the consumer again"
        )


class Rotation:
    """The steps of one rotation, and what stands at each moment."""

    _both = _BOTH
    _arrives = "is there for {} to fetch"
    _trial: staticmethod[[Client, str], Awaitable[object]] = staticmethod(_cluster_binding)

    def __init__(
        self, client: Client, consumer: Object, options: InviteOptions, progress: Progress
    ) -> None:
        self._client = client
        self._name = consumer.meta.name
        self._identity = identity_of(consumer) or consumer_of(consumer)
        self._options = options
        self._say = progress
        self._stands = (
            "keeps its token, since it did not get a new one. Run the command again to begin"
        )

    def interrupted(self) -> str:
        """Return the state of the rotation at this moment, and how to go on."""
        return f"interrupted: {self._identity} {self._stands}"

    async def hand_out(self, *, finish: bool) -> bytes:
        """Store a kubeconfig with the new token for the konnector, unless an earlier run did."""
        if await self._is_revoked():
            raise RotateError(
                f"{self._identity} is being revoked: finish that with `fairlead provider revoke "
                f"{self._name}`"
            )
        stored = await stored_kubeconfig(self._client, self._name)
        if stored.config is None:
            raise RotateError(
                f"{self._identity} has no kubeconfig in its cluster namespace {self._name}: "
                "invite it again"
            )
        plan = reconcile(await self._tokens(), stored.token)
        if finish and not plan.written:
            raise RotateError(
                f"there is no rotation of {self._identity} to finish: run the command without "
                "--finish to begin one"
            )
        # Options with another address cause a new kubeconfig with the same token.
        if plan.written and (finish or not self._moves()):
            self._stands = self._both
            arrives = self._arrives.format(self._identity)
            self._say(f"continuing: token {plan.name} {arrives} already")
            return stored.content
        token = await make_token(
            self._client, self._name, plan.name, seconds=self._options.token_timeout
        )
        reached = as_before(self._options, stored.config)
        kubeconfig = self._kubeconfig(reached, token)
        await self._check(kubeconfig, token)
        # From here on it may be stored, even if the answer does not arrive.
        self._stands = self._both
        await store_kubeconfig(self._client, self._name, kubeconfig)
        self._say(f"token {plan.name} {self._arrives.format(self._identity)}; both tokens work")
        return kubeconfig

    async def _is_revoked(self) -> bool:
        binding = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)
        return record_of(binding).revoked

    async def taken_over(
        self,
        kubeconfig: bytes,
        timeout: float,  # noqa: ASYNC109
    ) -> None:
        """Wait until the konnector has reported that it uses the new kubeconfig.

        Raises:
            RotateError: the konnector has not reported in time, or never will.
        """
        binding = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)
        if binding is not None and is_original(binding):
            raise RotateError(
                f"both tokens of {self._identity} stay valid: {silent(binding)}, as Fairlead's "
                "does. It starts to use the new token by itself: check that its heartbeats "
                f"continue, then run `fairlead provider rotate {self._identity} --finish`, "
                "which deletes the old token"
            )
        if not tells(binding):
            timeout = min(timeout, bounds.UNREPORTED_SECONDS)
        digest, shown = kubeconfig_digest(kubeconfig), ""

        def until(obj: Object | None) -> str:
            nonlocal shown
            text = missing(obj, digest)
            if text and text != shown:
                self._say(f"waiting: {text}")
            shown = text
            return text

        try:
            await wait_for(
                self._client,
                CLUSTERBINDINGS,
                CLUSTER_BINDING_NAME,
                self._name,
                until=until,
                timeout=timeout,
            )
        except WaitTimeout:
            raise RotateError(
                f"both tokens of {self._identity} stay valid: {shown} (waited {timeout:g} s). "
                "Run the command again to go on waiting, or add --finish to delete the old "
                "token even if something still uses it"
            ) from None
        self._stands = _USED
        self._say(f"{self._identity} uses the new token")

    async def take_away(self) -> None:
        """Delete every token except the one that was handed out."""
        # The kubeconfig that the konnector fetches at this moment decides: the consumer keeps a
        # token that works, even if another command was faster.
        stored = await stored_kubeconfig(self._client, self._name)
        if not stored.token:
            raise RotateError(
                f"the kubeconfig of {self._identity} has become unreadable meanwhile: invite "
                "it again"
            )
        tokens = await self._tokens()
        for token in tokens:
            if token.token == stored.token:
                await self._note(token)
        for token in tokens:
            if token.token == stored.token:
                continue
            with suppress(NotFound):
                await self._client.delete(
                    SECRETS, token.name, self._name, uid=token.secret.meta.uid
                )
                self._say(f"deleted token {token.name}")

    async def _note(self, token: TokenSecret) -> None:
        """Record when the remaining token was made, for readers without a right to Secrets.

        This happens before the other tokens are deleted: while they exist, the rotation counts as
        unfinished, and a second run comes here again.
        """
        binding = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)
        created = token.secret.meta.creation_timestamp
        if binding is None or binding.meta.annotations.get(ANNOTATION_TOKEN_MADE) == created:
            return
        patch = {"metadata": {"annotations": {ANNOTATION_TOKEN_MADE: created}}}
        with suppress(NotFound):
            await self._client.merge_patch(
                CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name, patch
            )

    async def _tokens(self) -> list[TokenSecret]:
        return token_secrets((await self._client.list(SECRETS, self._name)).items)

    def _moves(self) -> bool:
        """Whether the options change how the consumer reaches the provider."""
        options = self._options
        return bool(
            options.external_address or options.external_ca or options.external_server_name
        )

    def _kubeconfig(self, options: InviteOptions, token: TokenSecret) -> bytes:
        return consumer_kubeconfig(
            self._client.config, options, namespace=self._name, token=token.token, ca=token.ca
        )

    async def _check(self, kubeconfig: bytes, token: TokenSecret) -> None:
        """Test the new credentials; if their address is unreachable from here, the token alone.

        Raises:
            RotateError: the credentials do not work, and no object was written.
        """
        try:
            await probe(kubeconfig, self._trial)
        except ProbeError as error:
            raise self._broken(error) from None
        except NotReachedError as error:
            self._say(
                "checked only the token, and not the consumer's address for this API "
                f"server: {error}"
            )
            try:
                await probe(self._kubeconfig(InviteOptions(), token), self._trial)
            except (ProbeError, NotReachedError) as second:
                raise self._broken(second) from None

    def _broken(self, error: Exception) -> RotateError:
        return RotateError(
            f"the new credentials of {self._identity} do not work, so it keeps its old ones: "
            f"{error}"
        )
