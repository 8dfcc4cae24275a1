"""The front door: ``fairlead provider serve`` with its embedded issuer, and its people."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from pathlib import Path

import msgspec

from fairlead.client import Client
from fairlead.demo import browser
from fairlead.demo.programs import IMAGE, StoryProgram
from fairlead.portal.app import run_all
from fairlead.portal.client.addresses import Address
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.handshakes import sign_in
from fairlead.portal.identity.embedded.passwords import LEAST_COST, PasswordHash
from fairlead.portal.manifests import manifests
from fairlead.portal.options import (
    CALLBACK_PATH,
    DEFAULT_NAMESPACE,
    ISSUER_PATH,
    NAME,
    ExternalURL,
    Limits,
    OIDCOptions,
    ServeOptions,
    check,
)
from fairlead.runtime import Cluster, Manager


_HOST = "127.0.0.1"
_EXTERNAL = "https://bind.example.org"
"""Address in the Deployment, which is not started here."""
_PATIENCE_SECONDS = 120.0
"""Seconds that a wait may take; it takes about one on an idle machine."""


class Someone(msgspec.Struct, frozen=True):
    """A person with an account at the issuer, and a password for this run."""

    name: str
    team: str
    password: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(24))


class FrontDoor:
    """The front door of the story: its URL, its people, and the program that serves it."""

    def __init__(self, *people: Someone, limits: Limits | None = None) -> None:
        self.people = people
        # From the beginning, so that no other program gets the port. A client that connects before
        # the server runs waits.
        self._listening = socket.create_server((_HOST, 0))
        self._port: int = self._listening.getsockname()[1]
        self.url = f"http://{_HOST}:{self._port}"
        self._limits = limits or Limits()
        self._tokens: dict[str, str] = {}

    @property
    def program(self) -> StoryProgram:
        """The server, which needs the CRDs of the provider's controllers."""
        printed = manifests(
            image=IMAGE, external_url=_EXTERNAL, issuer_url=_EXTERNAL, client_id=NAME
        )
        return StoryProgram(NAME, DEFAULT_NAMESPACE, printed, _install_nothing, self._build)

    async def open(self) -> None:
        """Wait until the server answers with its introduction.

        Raises:
            FrontDoorError: the server has not answered within two minutes.
        """
        async with BackendClient(Address(self.url), seconds=_PATIENCE_SECONDS) as backend:
            await backend.provider()

    def close(self) -> None:
        """Release the port if no server has taken it over."""
        self._listening.close()

    async def log_in(self, someone: Someone) -> None:
        """Sign a person in as ``fairlead login`` does, with a simulated browser.

        Raises:
            ExceptionGroup: the server or the issuer refused.
        """
        # One group, so that a browser that fails ends the wait for its answer.
        async with asyncio.TaskGroup() as group, BackendClient(Address(self.url)) as backend:

            def show(url: str) -> None:
                group.create_task(browser.sign_in(url, someone.name, someone.password))

            signed_in = await sign_in(backend, show, timeout=_PATIENCE_SECONDS)
        self._tokens[someone.name] = signed_in.token.text

    def asked_by(self, someone: Someone) -> BackendClient:
        """Return a client of the server with this person's sign-in, as a context."""
        return BackendClient(Address(self.url), token=self._tokens[someone.name])

    async def _build(self, manager: Manager, cluster: Cluster) -> None:
        # In threads: scrypt takes its time by design, and all programs share this event loop.
        lines = await asyncio.gather(*(asyncio.to_thread(_hashed, one) for one in self.people))
        with tempfile.NamedTemporaryFile(prefix="fairlead-demo-") as file:
            file.write(msgspec.json.encode({"people": lines}))
            file.flush()
            options = _options(self.url, self._port, Path(file.name), self._limits)
            await run_all(manager, cluster, options, listening=self._listening)


async def _install_nothing(_: Client) -> None:
    """Install no CRDs: the controllers install them."""


def _hashed(someone: Someone) -> dict[str, object]:
    """Return a person as an entry in the file of people."""
    # The password is random, and is not guessed however fast a try is.
    line = PasswordHash.of(someone.password, cost=LEAST_COST).line
    return {"name": someone.name, "password": line, "groups": [someone.team]}


def _options(url: str, port: int, people: Path, limits: Limits) -> ServeOptions:
    external = ExternalURL.parse(url)
    oidc = OIDCOptions(
        type="embedded",
        issuer_url=external.absolute(ISSUER_PATH),
        client_id=NAME,
        callback_url=external.absolute(CALLBACK_PATH),
        people_file=people,
    )
    options = ServeOptions(external_url=external, host=_HOST, port=port, oidc=oidc, limits=limits)
    return check(options)
