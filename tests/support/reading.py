"""A person who goes through a page of the manual, block by block."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.support.documents import Person
from tests.support.pages import Fence, fences_of, printed
from tests.support.waiting import SECONDS

from fairlead.client import parse_kubeconfig


INSTALLS = "uv tool install"
"""What is run of a block that other tests leave out; the rest needs a registry or containers."""


async def done(person: Person, fence: Fence) -> str:
    """Have a person run a block; what it printed."""
    shown = ""
    for command in fence.commands:
        if fence.not_run and not command.startswith(INSTALLS):
            continue
        expected = fence.exit_code if command == fence.commands[-1] else 0
        shown += await person.do(f"{command} || test $? = {expected}" if expected else command)
    return shown


async def read(
    page: Path,
    person: Person,
    folder: Path,
    own: Callable[[str], str],
    run: Callable[[Person, Fence], Awaitable[str]],
) -> None:
    """Have a person go through a tutorial, block by block."""
    shown = ""
    for fence in fences_of(page):
        if fence.language == "yaml":
            (folder / fence.title).write_text(own(fence.text))
        elif fence.language == "sh":
            shown = await run(person, fence)
        elif fence.language == "text":
            assert printed(fence.text, shown) == "", f"{page.name}:{fence.line}\n{shown}"


def waited(text: str) -> str:
    """Let `kubectl wait` have the time that a busy machine needs."""
    return re.sub(r"( wait .*)", rf"\1 --timeout={SECONDS:.0f}s", text)


def reached(text: str, provider: bytes) -> str:
    """Put the provider's address, as its kubeconfig has it, in the place of kind's."""
    return text.replace("https://provider-control-plane:6443", parse_kubeconfig(provider).server)
