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
from fairlead.demo.programs import IMAGE, Program
from fairlead.portal.app import run_all
from fairlead.portal.client.addresses import Address
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.handshakes import sign_in
from fairlead.portal.identity.embedded.issuer import CLIENT_ID
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
"""Stands in the Deployment that nothing starts here."""
_PATIENCE_SECONDS = 120.0
"""What is waited for comes within a second, and within this on the busiest laptop."""


class Someone(msgspec.Struct, frozen=True):
    """A person whom the issuer knows, with a password of this run."""

    name: str
    team: str
    password: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(24))


class FrontDoor:
    """The server as its people reach it; ``program`` is what has to run."""

    def __init__(self, *people: Someone, limits: Limits | None = None) -> None:
        self.people = people
        # From the beginning, so that nothing else gets the port of its address. Who connects
        # before the server is there waits.
        self._listening = socket.create_server((_HOST, 0))
        self._port: int = self._listening.getsockname()[1]
        self.url = f"http://{_HOST}:{self._port}"
        self._limits = limits or Limits()
        self._tokens: dict[str, str] = {}

    @property
    def program(self) -> Program:
        """The server, which needs the CRDs of the provider's controllers."""
        printed = manifests(
            image=IMAGE, external_url=_EXTERNAL, issuer_url=_EXTERNAL, client_id=CLIENT_ID
        )
        return Program(NAME, DEFAULT_NAMESPACE, printed, _install_nothing, self._build)

    async def open(self) -> None:
        """Wait until it introduces itself.

        Raises:
            FrontDoorError: it has not within two minutes.
        """
        async with BackendClient(Address(self.url), seconds=_PATIENCE_SECONDS) as backend:
            await backend.provider()

    def close(self) -> None:
        """Give back the port where no server has taken it over."""
        self._listening.close()

    async def log_in(self, someone: Someone) -> None:
        """Do what ``fairlead login`` does, with someone at the browser.

        Raises:
            ExceptionGroup: the server or the issuer refused.
        """
        async with asyncio.TaskGroup() as group, BackendClient(Address(self.url)) as backend:

            def show(url: str) -> None:
                group.create_task(browser.sign_in(url, someone.name, someone.password))

            signed_in = await sign_in(backend, show, timeout=_PATIENCE_SECONDS)
        self._tokens[someone.name] = signed_in.token.text

    def asked_by(self, someone: Someone) -> BackendClient:
        """The server as it answers someone who has signed in, while that is entered."""
        return BackendClient(Address(self.url), token=self._tokens[someone.name])

    async def _build(self, manager: Manager, cluster: Cluster) -> None:
        lines = await asyncio.gather(*(asyncio.to_thread(_hashed, one) for one in self.people))
        with tempfile.NamedTemporaryFile(prefix="fairlead-demo-") as file:
            file.write(msgspec.json.encode({"people": lines}))
            file.flush()
            options = _options(self.url, self._port, Path(file.name), self._limits)
            await run_all(manager, cluster, options, listening=self._listening)


async def _install_nothing(_: Client) -> None:
    """CRDs are the controllers' to bring."""


def _hashed(someone: Someone) -> dict[str, object]:
    """Someone as the file of people has them."""
    # The password is random, and is not guessed however fast a try is.
    line = PasswordHash.of(someone.password, cost=LEAST_COST).line
    return {"name": someone.name, "password": line, "groups": [someone.team]}


def _options(url: str, port: int, people: Path, limits: Limits) -> ServeOptions:
    external = ExternalURL.parse(url)
    oidc = OIDCOptions(
        type="embedded",
        issuer_url=external.absolute(ISSUER_PATH),
        client_id=CLIENT_ID,
        callback_url=external.absolute(CALLBACK_PATH),
        people_file=people,
    )
    options = ServeOptions(external_url=external, host=_HOST, port=port, oidc=oidc, limits=limits)
    return check(options)
