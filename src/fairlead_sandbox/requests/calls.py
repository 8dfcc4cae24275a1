"""One request to one resource, and the answer that is sent in one piece."""

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


@dataclass(frozen=True)
class Call:
    """One request to one resource, read but not yet answered."""

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
    """Gets the answers of webhooks."""
    require: Callable[[str], None] | None = None
    """Refuses a verb other than the call's to a user without a right to it; None in a worker."""

    @property
    def manager(self) -> str:
        """The owner of the fields that the call writes: its field manager, else its program."""
        return self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"

    @property
    def writing(self) -> WriteOptions:
        """How the call writes, but for what its handler knows better."""
        return WriteOptions(
            self.user,
            self.manager,
            subresource=self.info.subresource,
            dry_run=self.dry_run,
            webhooks=self.webhooks,
        )

    @property
    def key(self) -> Key:
        """The object asked for."""
        namespace = self.info.namespace if self.type.resource.namespaced else ""
        return Key(namespace, self.info.name)

    @property
    def dry_run(self) -> bool:
        """Whether the write must leave no trace."""
        return bool(self.query.get("dryRun"))


@dataclass(frozen=True)
class Answer:
    """A response that is sent in one piece."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Texts for Warning headers."""


def error_answer(error: StatusError) -> Answer:
    """The answer that tells of an error."""
    return Answer(error.body(), error.code, headers=error.headers)
