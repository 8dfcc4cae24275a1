"""Steps of a rotation for a consumer of kbind v2: its new token comes to it in a file.

Its konnector tells no one at the provider which credentials it uses, so that a person decides when
the old token goes.
"""

from __future__ import annotations

import asyncio

from fairlead.api.kbind.names import IDENTITY_NAMESPACE
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.provider.commands.rotation.work import Progress, RotateError, Rotation
from fairlead.provider.options import InviteOptions
from fairlead.provider.tokens import TokenSecret
from fairlead.provider.v2.invitation import file_of
from fairlead.provider.v2.reading import recorded
from fairlead.provider.v2.record import consumer_of


async def rotate_kbind(
    client: Client,
    home: Object,
    *,
    options: InviteOptions,
    finish: bool,
    progress: Progress,
) -> list[JSON]:
    """Give a consumer a new token; return the objects of its file, which have it.

    Both tokens work until a second call with ``finish`` deletes the old one. One without it
    returns the same file again.

    Args:
        client: with an administrator's rights.
        home: the consumer's home.
        options: the consumer's access to the provider from now on; empty fields stay as they are.
        finish: delete the old token.
        progress: called with each step.

    Raises:
        RotateError: there is nothing to rotate, or to finish, or the credentials do not work.
        InviteError: the cluster makes no token, or the record cannot be read.
        ApiError: the server refused.
    """
    work = _KbindRotation(client, home, options, progress)
    invitation = await recorded(client, home.meta.name)
    if not invitation.apis:
        raise RotateError(f"{consumer_of(home)} has no complete invitation: invite it again")
    try:
        kubeconfig = await work.hand_out(finish=finish)
        if finish:
            await work.take_away()
    except asyncio.CancelledError:
        progress(work.interrupted())
        raise
    return file_of(invitation, kubeconfig)


async def _identity_namespace(client: Client, _namespace: str) -> Object:
    return await client.get(NAMESPACES, IDENTITY_NAMESPACE)


class _KbindRotation(Rotation):
    _both = (
        "has a new token in its file, and both tokens are valid. Run the command again for the "
        "file, or add --finish to delete the old token even if something still uses it"
    )
    _arrives = "is in the file of {}"
    _trial = staticmethod(_identity_namespace)

    async def _is_revoked(self) -> bool:
        return (await recorded(self._client, self._name)).revoked

    async def _note(self, token: TokenSecret) -> None:
        """Record nothing: no reader asks for the age of a token."""
