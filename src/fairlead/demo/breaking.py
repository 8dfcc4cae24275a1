"""Three faults that a person can cause in the demo, with the text that the console shows."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.demo import objects
from fairlead.demo.story import ACCESSES, FIRST_PRIVILEGES, SERVERS, SERVICE_BINDINGS


class Breakage(msgspec.Struct, frozen=True):
    """A change of one object that causes a fault, and the change that ends it.

    ``shows`` describes the console's answer for a person, and ``says`` is the text on its
    ``page``.
    """

    title: str
    side: Literal["consumer", "provider"]
    resource: Resource
    namespace: str
    name: str
    change: JSON
    mend: JSON
    page: str
    shows: str
    says: str


def breakages(port: int) -> tuple[Breakage, ...]:
    """Return the three breakages; ``port`` is the database server's."""
    access = f"/objects/{ACCESSES.group_resource}/{objects.NAMESPACE}/{objects.ACCESS}"
    binding = f"/objects/{SERVICE_BINDINGS.group_resource}/{objects.NAMESPACE}/{objects.APP}"
    granted = objects.access(FIRST_PRIVILEGES)["spec"]["grants"]
    # Not among the allowedDatabases of the story's PostgresServer.
    refused = [{"database": "payroll", "privileges": ["CONNECT"]}]
    return (
        Breakage(
            title="Ask for a database that is not offered",
            side="consumer",
            resource=ACCESSES,
            namespace=objects.NAMESPACE,
            name=objects.ACCESS,
            change={"spec": {"grants": refused}},
            mend={"spec": {"grants": granted}},
            page=access,
            shows="PostgresAccess is broken, and names payroll; the old grants stay",
            says="payroll",
        ),
        Breakage(
            title="Bind the app to a service that is not there",
            side="consumer",
            resource=SERVICE_BINDINGS,
            namespace=objects.NAMESPACE,
            name=objects.APP,
            change={"spec": {"service": {"name": "nowhere"}}},
            mend={"spec": {"service": {"name": objects.ACCESS}}},
            page=binding,
            shows="ServiceBinding and Deployment wait for PostgresAccess shop/nowhere",
            says="nowhere",
        ),
        Breakage(
            title="Have the provider's database server move away",
            side="provider",
            resource=SERVERS,
            namespace="",
            name=objects.SERVER,
            # A port of loopback where nothing listens: the connection is refused at once.
            change={"spec": {"port": 1}},
            mend={"spec": {"port": port}},
            page=access,
            shows="PostgresAccess is broken on the provider's side: its server does not answer",
            says="127.0.0.1:1",
        ),
    )
