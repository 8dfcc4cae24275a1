"""A call, which is one request to one resource, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.api.meta import Key
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import Core, User
from fairlead_sandbox.objects.writes import WriteOptions
from fairlead_sandbox.requests.info import RequestInfo
from fairlead_sandbox.requests.negotiation import Accept
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.webhooks.conversation import Conversation
from fairlead_sandbox.webhooks.reviews import Question


Ask = Callable[[Conversation, Sequence[Question]], Awaitable[None]]
"""Asks webhooks and puts their answers into the conversation."""


@dataclass(frozen=True)
class Call:
    """One request to one resource, parsed but not yet answered."""

    core: Core
    type: ResourceType
    info: RequestInfo
    query: Mapping[str, str]
    accept: Accept
    body: bytes
    content_type: str
    user: User
    user_agent: str = ""
    webhooks: Conversation | None = None
    """The conversation with admission webhooks about the call; None if there are no webhooks."""
    ask: Ask | None = None
    """Calls the webhooks; None in a worker, which returns the questions to the server."""
    require: Callable[[str], None] | None = None
    """Raises 403 if the user lacks another verb than the call's; None in a worker."""

    @property
    def manager(self) -> str:
        """Field manager: ``fieldManager`` of the query, else the user agent up to its slash."""
        return self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"

    @property
    def writing(self) -> WriteOptions:
        """Options of the call's write; handlers of special verbs replace some of them."""
        return WriteOptions(
            self.user,
            self.manager,
            subresource=self.info.subresource,
            dry_run=self.dry_run,
            webhooks=self.webhooks,
        )

    @property
    def key(self) -> Key:
        """Namespace and name of the requested object."""
        namespace = self.info.namespace if self.type.resource.namespaced else ""
        return Key(namespace, self.info.name)

    @property
    def dry_run(self) -> bool:
        """Whether the write is only tried and stores nothing (``dryRun=All``)."""
        return bool(self.query.get("dryRun"))


@dataclass(frozen=True)
class Answer:
    """A response whose body is complete, unlike a watch."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Texts of the Warning headers."""


def error_answer(error: StatusError) -> Answer:
    """Return the answer that holds the Status of an error."""
    return Answer(error.body(), error.code, headers=error.headers)
