"""An attempt that a change elsewhere has overtaken is made again, and not for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fairlead_sandbox.builtin import builtin_types
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import Core, User
from fairlead_sandbox.requests.attempts import ATTEMPTS, OutdatedError, answered
from fairlead_sandbox.requests.calls import Ask, Call
from fairlead_sandbox.requests.info import RequestInfo
from fairlead_sandbox.requests.negotiation import Accept
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.storage.log import Log
from fairlead_sandbox.storage.store import ObjectStore, StorageError
from fairlead_sandbox.webhooks.conversation import Conversation, Unanswered
from fairlead_sandbox.webhooks.reviews import Question


class Attempts:
    """Attempts that fail one after the other, and then succeed."""

    def __init__(self, *failures: Exception) -> None:
        self.made = 0
        self._failures = iter(failures)

    async def __call__(self, call: Call) -> str:
        self.made += 1
        failure = next(self._failures, None)
        if failure is not None:
            raise failure
        return "done"


async def nothing(conversation: Conversation, questions: Sequence[Question]) -> None:
    """Webhooks whose answers are of no interest."""


def call(verb: str, ask: Ask | None = None) -> Call:
    registry = ResourceRegistry(builtin_types())
    (type_,) = (one for one in builtin_types() if one.resource.kind == "ConfigMap")
    return Call(
        Core(ObjectStore(Log()), registry),
        type_,
        RequestInfo("/api/v1/namespaces/default/configmaps/a", verb, name="a"),
        {},
        Accept(),
        b"",
        "",
        User(),
        webhooks=Conversation({}) if ask is not None else None,
        ask=ask,
    )


@pytest.mark.parametrize(
    ("verb", "ask", "failure"),
    [
        pytest.param("update", nothing, lambda: Unanswered([]), id="webhooks are asked"),
        pytest.param("update", None, OutdatedError, id="its object has changed"),
        pytest.param("get", None, lambda: StorageError("full"), id="an object is taken back"),
        pytest.param("list", None, lambda: StorageError("full"), id="of a list"),
    ],
)
async def test_an_overtaken_attempt_is_made_again(
    verb: str, ask: Ask | None, failure: Callable[[], Exception]
) -> None:
    attempts = Attempts(*(failure() for _ in range(ATTEMPTS - 1)))
    assert await answered(call(verb, ask), attempts) == "done"
    assert attempts.made == ATTEMPTS


@pytest.mark.parametrize(
    ("verb", "failure", "code"),
    [
        pytest.param("update", OutdatedError, 409, id="an object that changes all the time"),
        pytest.param("list", lambda: StorageError("full"), 507, id="a disk that stays full"),
    ],
)
async def test_an_attempt_is_overtaken_so_often(
    verb: str, failure: Callable[[], Exception], code: int
) -> None:
    attempts = Attempts(*(failure() for _ in range(ATTEMPTS)))
    with pytest.raises(StatusError) as refused:
        await answered(call(verb), attempts)
    assert (refused.value.code, attempts.made) == (code, ATTEMPTS)


async def test_answers_of_webhooks_begin_a_new_row_of_attempts() -> None:
    row = [OutdatedError() for _ in range(ATTEMPTS - 1)]
    attempts = Attempts(*row, Unanswered([]), *row)
    assert await answered(call("update", nothing), attempts) == "done"
    assert attempts.made == 2 * ATTEMPTS


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(StorageError("full"), id="a write that could not be stored"),
        pytest.param(Unanswered([]), id="questions that have no way to webhooks"),
        pytest.param(StatusError(403, "Forbidden", "no"), id="a refusal"),
    ],
)
async def test_other_failures_end_the_call(failure: Exception) -> None:
    attempts = Attempts(failure)
    with pytest.raises(type(failure)):
        await answered(call("update"), attempts)
    assert attempts.made == 1
