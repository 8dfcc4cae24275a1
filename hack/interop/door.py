"""The front door: each command line at each server, with one home directory for both of them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp
from hack.interop import browser, checks, programs
from hack.interop.checks import CheckError, Outcome
from hack.interop.programs import OURS, ProgramError, call
from hack.interop.recorder import recording
from hack.interop.recording import recorded
from hack.interop.world import World, write
from tests.support.realplane import free_ports

from fairlead.api.kubebind import (
    ANNOTATION_IDENTITY,
    API_VERSION,
    APISERVICEBINDINGS,
    COLLECTIONS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, CLUSTERROLES, NAMESPACES, SECRETS
from fairlead.client import ClientError, parse_kubeconfig
from fairlead.client.lookups import find
from fairlead.portal.identity.embedded.passwords import PasswordHash


TEMPLATE = "widgets"
COLLECTION = "factory"
_GROUP = "interop"
_ROLE = "kube-bind-oidc-user"
"""The role that the original makes for people who may bind; ours lets them in by it, too."""


Visit = Callable[[str], Awaitable[None]]
"""Follows an address that a command line names."""


class Terminal:
    """Someone's terminal in the consumer's cluster, with both command lines and one home."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url

    async def ours(self, *arguments: str) -> str:
        """What our command line says; "login" is followed in a browser."""
        return await self._call([*OURS, *arguments])

    async def by_page(self, template: str) -> str:
        """What our command line says while a person binds on the page of the original."""

        async def visit(url: str) -> None:
            called = await browser.choose(url, template)
            if (record := self.world.record) is not None:
                server, _, target = called.partition("/callback/")
                asked = ("GET", f"/callback/{target}", {"User-Agent": "Mozilla"}, b"")
                record.keep(recorded(server, asked, (200, {}, b"")))

        # The address of its documentation, which begins the page flow as well as the root does.
        arguments = ("bind", f"{self.url}/api/exports", "--skip-browser")
        return await self._call([*OURS, *arguments], visit)

    async def theirs(self, *arguments: str) -> str:
        """What the original's says; its exit code tells little."""
        consumer = str(self.world.file("consumer.kubeconfig"))
        command = programs.original("KUBECTL_BIND", *arguments, "--kubeconfig", consumer)
        return await self._call(command)

    async def config(self) -> JSON:
        """The file that both of them keep servers in."""
        text = await asyncio.to_thread(self._file.read_text)
        found: JSON = json.loads(text)
        return found

    async def write_config(self, config: JSON) -> None:
        """Change that file."""
        await asyncio.to_thread(self._file.write_text, json.dumps(config))

    @property
    def _file(self) -> Path:
        return self.world.folder / ".kube-bind" / "config"

    async def _call(self, command: list[str], visit: Visit = browser.sign_in) -> str:
        consumer = self.world.file("consumer.kubeconfig")
        limit = self.world.setting.timeout + 30
        said = await call(command, consumer, self.world.folder, timeout=limit, visit=visit)
        with self.world.file("terminal.log").open("a") as log:
            log.write(f"$ {' '.join(command)}\n{said}\n")
        return said


Line = Callable[..., Awaitable[str]]


class Walk:
    """What a person does, one check after the other.

    Args:
        terminal: where they sit.
        first: the command line that they begin with.
        second: the one that takes over.
    """

    def __init__(self, terminal: Terminal, first: Line, second: Line) -> None:
        self.terminal = terminal
        self.first = first
        self.second = second
        self.namespace = ""

    async def signed_in(self) -> None:
        """The first signs in, and keeps the server with its token."""
        await self._log_in(self.first)

    async def listed(self) -> None:
        """The first shows templates and collections."""
        await self._shows(self.first, "templates", TEMPLATE)
        await self._shows(self.first, "collections", COLLECTION)

    async def file_read(self) -> None:
        """The second goes on with what the first has kept."""
        await self._shows(self.second, "templates", TEMPLATE)
        who = json.loads(await self.terminal.ours("whoami", "--json"))
        if who["server"] != self.terminal.url or not who["expires"]:
            raise CheckError(f"whoami knows another server or no end: {who}")

    async def unknown_refused(self) -> None:
        """A template that is not there binds nothing, and makes no namespace."""
        try:
            await self._bind(self.first, "nothing-of-the-kind")
        except ProgramError as error:
            if "Traceback" in str(error):
                raise CheckError(str(error)) from None
        if await find(self.terminal.world.consumer, APISERVICEBINDINGS, "nothing-of-the-kind"):
            raise CheckError("there is a binding of a template that is not there")

    async def bound(self) -> None:
        """The first binds a template."""
        await self._bind(self.first, TEMPLATE)
        self.namespace = await self._bound_namespace()

    async def found_again(self) -> None:
        """The same person binds from the same cluster, and gets the same namespace."""
        await self._bind(self.second, TEMPLATE)
        world = self.terminal.world
        if (found := await self._bound_namespace()) != self.namespace:
            raise CheckError(f"bound in {self.namespace}, and in {found} when bound again")
        cluster = await world.consumer.get(NAMESPACES, "kube-system")
        mine = [
            one.meta.name
            for one in (await world.provider.list(NAMESPACES)).items
            if one.meta.annotations.get(ANNOTATION_IDENTITY) == cluster.meta.uid
        ]
        if mine != [self.namespace]:
            raise CheckError(f"bound in {self.namespace}, but of this cluster are {mine}")

    async def token_refused(self) -> None:
        """A token that the server has not given lets no one in."""
        config = await self.terminal.config()
        given = config["servers"][config["current"]]
        token, given["accessToken"] = given["accessToken"], "of-no-one"
        await self.terminal.write_config(config)
        await self._refused(self.first)
        await self._refused(self.second)
        given["accessToken"] = token
        await self.terminal.write_config(config)

    async def signed_out(self) -> None:
        """Ours signs out, and neither of them is let in."""
        await self.terminal.ours("logout")
        await self._refused(self.first)
        await self._refused(self.second)

    async def file_read_back(self) -> None:
        """The second signs in, and the first goes on with that."""
        await self._log_in(self.second)
        await self._shows(self.first, "templates", TEMPLATE)

    async def run(self) -> list[Outcome]:
        """All of these, in the order in which one prepares the next."""
        steps = (
            *(self.signed_in, self.listed, self.file_read, self.unknown_refused),
            *(self.bound, self.found_again, self.token_refused, self.signed_out),
            self.file_read_back,
        )
        return await _outcomes(steps)

    async def _log_in(self, line: Line) -> None:
        await line("login", self.terminal.url, "--skip-browser")
        config = await self.terminal.config()
        kept = config["servers"].get(config["current"], {})
        if kept.get("url") != self.terminal.url or not kept.get("accessToken"):
            raise CheckError("the config file has no token of the server")

    async def _shows(self, line: Line, what: str, name: str) -> None:
        """What is offered may reach a server's caches a moment after it has begun to listen."""
        said = ""
        try:
            async with asyncio.timeout(self.terminal.world.setting.timeout):
                while name not in said:
                    said = await line(what)
        except TimeoutError:
            told = programs.tail(said)
            raise CheckError(f"{what} does not show {name}: {told}") from None

    async def _refused(self, line: Line) -> None:
        try:
            said = await line("templates")
        except ProgramError as error:
            said = str(error)
        # The original shows a table with nothing in it.
        if re.search(rf"^{TEMPLATE}\s", said, re.MULTILINE):
            raise CheckError(f"templates are shown to someone unknown: {said}")

    async def _bind(self, line: Line, template: str) -> None:
        if line == self.terminal.ours:
            await line("bind", "--template", template)
            return
        chosen = ("--template-name", template, "--name", template)
        await line("apiservice", *chosen, "--skip-konnector")
        if template == TEMPLATE:
            # The rights of what others have bound are given by an administrator.
            await self.terminal.ours("accept", template)

    async def _bound_namespace(self) -> str:
        consumer = self.terminal.world.consumer
        binding = await consumer.get(APISERVICEBINDINGS, TEMPLATE)
        reference = binding.to_dict()["spec"]["kubeconfigSecretRef"]
        secret = await consumer.get(SECRETS, reference["name"], reference["namespace"])
        kubeconfig = base64.b64decode(secret.to_dict()["data"][reference["key"]])
        return parse_kubeconfig(kubeconfig).namespace


async def at_ours(world: World) -> list[Outcome]:
    """The original's command line at our server, and ours after it."""
    url = await _our_server(world)
    terminal = Terminal(world, url)
    return await _walked(Walk(terminal, terminal.theirs, terminal.ours))


async def at_theirs(world: World) -> list[Outcome]:
    """Our command line at the original's server."""
    terminal = Terminal(world, await _their_server(world))
    return await _walked(Walk(terminal, terminal.ours, terminal.ours))


class PageWalk(Walk):
    """A person who binds on a page first, and in the terminal alone after that."""

    async def bound_by_page(self) -> None:
        """The person binds on the page, with no token in the terminal."""
        await self.terminal.by_page(TEMPLATE)
        self.namespace = await self._bound_namespace()

    async def found_by_page(self) -> None:
        """The same once more, from the same cluster."""
        await self.terminal.by_page(TEMPLATE)
        if (found := await self._bound_namespace()) != self.namespace:
            raise CheckError(f"bound in {self.namespace}, and in {found} when bound again")

    async def run(self) -> list[Outcome]:
        """All of these, and the terminal's last, which finds what the page has bound."""
        steps = (self.bound_by_page, self.found_by_page, self.signed_in, self.found_again)
        return await _outcomes(steps)


async def at_their_page(world: World) -> list[Outcome]:
    """Our command line by the page of the original's server."""
    terminal = Terminal(world, await _their_server(world))
    return await _walked(PageWalk(terminal, terminal.ours, terminal.ours))


async def both_at_theirs(world: World) -> list[Outcome]:
    """The original's command line at its own server, and ours after it."""
    terminal = Terminal(world, await _their_server(world))
    return await _walked(Walk(terminal, terminal.theirs, terminal.ours))


async def _outcomes(steps: Sequence[Callable[[], Awaitable[None]]]) -> list[Outcome]:
    outcomes = []
    for step in steps:
        name = getattr(step, "__name__", "")
        try:
            await step()
        except (CheckError, ClientError, ProgramError, aiohttp.ClientError) as error:
            outcomes.append(Outcome(name, str(error)))
        else:
            outcomes.append(Outcome(name, ""))
    return outcomes


async def _walked(walk: Walk) -> list[Outcome]:
    world = walk.terminal.world
    outcomes = await walk.run()
    if not walk.namespace:
        return outcomes
    return outcomes + await checks.run(world.pair(TEMPLATE, walk.namespace))


async def _our_server(world: World) -> str:
    await _offer(world)
    await world.our_provider()
    url, port = await _place(world)
    password = PasswordHash.of(browser.PASSWORD).line
    person = {"name": browser.NAME, "password": password, "groups": [_GROUP]}
    write(world.file("people.json"), json.dumps({"people": [person]}).encode())
    await world.provider.create(NAMESPACES, {"metadata": {"name": "fairlead-serve"}})
    await _let_in(world)
    command = [
        *OURS,
        *("provider", "serve", "--oidc-type", "embedded"),
        *("--oidc-people-file", str(world.file("people.json"))),
        *("--listen-address", f"127.0.0.1:{port}", "--external-url", url),
        # As the original names people in reviews.
        *("--oidc-username-prefix", "", "--oidc-groups-prefix", ""),
    ]
    await world.run("serve", command, "provider")
    await _open(world, url)
    return url


async def _their_server(world: World) -> str:
    await _offer(world)
    url, port = await _place(world)
    setting, address = world.setting, world.provider.config.server
    command = programs.backend_door(setting.scope, setting.isolation, address, url, port)
    await world.run("backend", command, "provider")
    await _open(world, url)
    return url


async def _offer(world: World) -> None:
    spec = {"description": "All that we make.", "templates": [{"name": TEMPLATE}]}
    body = {"apiVersion": API_VERSION, "kind": COLLECTIONS.kind, "spec": spec}
    await world.provider.create(COLLECTIONS, body | {"metadata": {"name": COLLECTION}})
    await world.our_konnector()


async def _let_in(world: World) -> None:
    """Give people the role that the original's backend makes for them."""
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["kube-bind.io"], "resources": ["*"], "verbs": ["bind"]}
    metadata = {"metadata": {"name": _ROLE}}
    await world.provider.create(CLUSTERROLES, metadata | {"rules": [rule]})
    role = {"apiGroup": group, "kind": "ClusterRole", "name": _ROLE}
    subject = {"apiGroup": group, "kind": "Group", "name": _GROUP}
    body = metadata | {"roleRef": role, "subjects": [subject]}
    await world.provider.create(CLUSTERROLEBINDINGS, body)


async def _place(world: World) -> tuple[str, int]:
    """The address that a server is to be reached by, and the port that it is to listen on."""
    port, behind = free_ports(2)
    if world.record is None:
        behind = port
    else:
        await world.enter(recording(port, behind, world.record))
    return f"http://127.0.0.1:{port}", behind


async def _open(world: World, url: str) -> None:
    """Wait until a server introduces itself."""
    async with asyncio.timeout(world.setting.timeout), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"{url}/healthz") as answer:
                    if answer.ok:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)
