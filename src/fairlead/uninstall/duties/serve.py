"""The front door's duties: open requests, and people who are signed in."""

from __future__ import annotations

from fairlead.api.kubebind import BINDABLERESOURCESREQUESTS
from fairlead.api.meta import Object
from fairlead.api.remains import count
from fairlead.api.resource import SECRETS
from fairlead.client import NotFound
from fairlead.portal.identity.secretstore import LABEL_KIND
from fairlead.uninstall.duties.base import Duties
from fairlead.uninstall.findings import Use


class ServeDuties(Duties):
    """BindableResourcesRequests of the server, and Secrets of sessions, codes and keys."""

    async def uses(self) -> list[Use]:
        """Return each request that is not answered yet."""
        return [
            Use(
                what=f"BindableResourcesRequest {request.key} is in flight for a person who binds",
                remedy="wait until it is answered, and run the command again",
                option="force",
                breaks=f"who has asked for BindableResourcesRequest {request.key} gets no answer",
            )
            # The server deletes a request as soon as it has read the answer: those that exist have
            # none.
            for request in await self._requests()
        ]

    async def notes(self) -> list[str]:
        """Return a note with the number of people who will be signed out."""
        sessions = sum(one.meta.labels[LABEL_KIND] == "session" for one in await self._secrets())
        if not sessions:
            return []
        return [f"{count(sessions, 'session ends', 'sessions end')}: people are signed out"]

    async def clear(self) -> None:
        """Delete sessions, codes and keys, and requests, which only the server would answer."""
        await self._removal.delete(BINDABLERESOURCESREQUESTS, await self._requests())
        if number := await self._removal.delete(SECRETS, await self._secrets()):
            self._removal.progress(f"deleted {count(number, 'Secret')} of sessions and keys")

    async def _requests(self) -> list[Object]:
        try:
            listed = await self._client.list(BINDABLERESOURCESREQUESTS, self._footprint.namespace)
        except NotFound:
            # The CRD comes with the provider's controllers, which may have been uninstalled first.
            return []
        return listed.items

    async def _secrets(self) -> list[Object]:
        listed = await self._client.list(
            SECRETS, self._footprint.namespace, labels=LABEL_KIND, metadata_only=True
        )
        return listed.items
