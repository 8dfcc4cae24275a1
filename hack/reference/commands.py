"""The pages of commands, from the command line itself."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click
from hack.reference.tables import code, sentence, table, words

from fairlead.cli import main
from fairlead.cli.frontdoor.kubectl_bind import main as kubectl_bind


_INDEX = """\
# Commands

Every command and every flag. `fairlead COMMAND --help` says the same, and `kubectl fairlead` is
the same program. Errors are one line on standard error; the exit code is 1, and 2 for wrong usage.
"""
_VERBATIM = "\b"
"""Stands before a paragraph that is kept as it is."""


def pages() -> dict[str, str]:
    """The pages by their paths below the reference."""
    named = {f"fairlead {name}": command for name, command in _children(main)}
    named["kubectl bind"] = kubectl_bind
    made = {
        f"commands/{_file(name)}": "\n".join(_parts(name, command, 1))
        for name, command in named.items()
    }
    rows = [
        (f"[{code(name)}]({_file(name)})", words(command.get_short_help_str(200)))
        for name, command in named.items()
    ]
    options = table(_OPTIONS, _options(main, "fairlead"))
    listed = table(("command", "what it does"), rows)
    index = f"{_INDEX}\n{listed}\n## Flags of fairlead itself\n\n{options}"
    return {"commands/index.md": index, **made}


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands with their names, groups among them."""
    for name, command in (("fairlead", main), ("kubectl bind", kubectl_bind)):
        yield from _all(name, command)


def _all(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for child, below in _children(command):
        yield from _all(f"{name} {child}", below)


def _children(command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None and not child.hidden:
            yield name, child


def _file(name: str) -> str:
    return f"{name.removeprefix('fairlead ').replace(' ', '-')}.md"


def _parts(name: str, command: click.Command, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} {name}\n"
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    yield f"```text\n{name} {usage}\n```\n"
    yield from _texts(command.help or "")
    rows = list(_options(command, name))
    if rows:
        yield table(_OPTIONS, rows)
    for child, below in _children(command):
        yield from _parts(f"{name} {child}", below, depth + 1)


def _texts(help_: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(help_).split("\n\n"):
        if not paragraph.startswith(_VERBATIM):
            yield words(" ".join(paragraph.split())) + "\n"
            continue
        lines = paragraph.removeprefix(_VERBATIM).strip("\n").split("\n")
        if lines[0].startswith("Example"):
            title, body = lines[0], textwrap.dedent("\n".join(lines[1:]))
            yield f"{words(title)}\n\n```sh\n{body}\n```\n"
        else:
            yield "```text\n" + "\n".join(lines) + "\n```\n"


_OPTIONS = ("flag", "what it does")
_KNOWN = re.compile(r"\s*\[((?:default: |env var: |required|[\d.]*<?=?x[<>]).*)\]$")
_FACTS = {"default": "Default", "env var": "Environment variable"}


def _options(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name)
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            flags, text = record
            # click ends the text with what it knows itself, in brackets.
            said = _KNOWN.search(text)
            known = [_fact(part) for part in said.group(1).split("; ")] if said else []
            text = words(sentence(text[: said.start()] if said else text))
            yield code(flags), " ".join(filter(None, [text, *known]))


def _fact(text: str) -> str:
    name, colon, value = text.partition(": ")
    if colon:
        return f"{_FACTS[name]}: {code(value)}."
    return "**Required.**" if text == "required" else f"{code(text)}."
