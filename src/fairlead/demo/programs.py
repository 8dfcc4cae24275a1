"""Fairlead's controllers, each installed by its manifests and run as its ServiceAccount."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from fairlead.api.meta import JSON
from fairlead.binding import app as binding_app
from fairlead.binding.manifests import NAME as BINDING_NAME
from fairlead.binding.manifests import manifests as binding_manifests
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING_NAMESPACE
from fairlead.client import Client
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector.manifests import NAME as KONNECTOR_NAME
from fairlead.konnector.manifests import manifests as konnector_manifests
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.postgres import app as postgres_app
from fairlead.postgres.manifests import NAME as POSTGRES_NAME
from fairlead.postgres.manifests import manifests as postgres_manifests
from fairlead.postgres.options import DEFAULT_NAMESPACE as POSTGRES_NAMESPACE
from fairlead.provider import app as provider_app
from fairlead.provider.manifests import NAME as PROVIDER_NAME
from fairlead.provider.manifests import manifests as provider_manifests
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import Cluster, Manager


IMAGE = "fairlead:dev"
"""Image in the Deployments, which are not started here."""


class StoryProgram(msgspec.Struct, frozen=True):
    """One program: its manifests, its ServiceAccount, and the function that builds it."""

    name: str
    namespace: str
    manifests: Sequence[JSON]
    install_crds: Callable[[Client], Awaitable[None]]
    build: Callable[[Manager, Cluster], Awaitable[object]]


def provider_programs(exports: Sequence[str]) -> list[StoryProgram]:
    """Return the programs of the provider's cluster, which may export these (``plural.group``)."""
    return [
        StoryProgram(
            POSTGRES_NAME,
            POSTGRES_NAMESPACE,
            postgres_manifests(image=IMAGE, exported=True),
            partial(postgres_app.install_crds, exported=True),
            postgres_app.build,
        ),
        StoryProgram(
            PROVIDER_NAME,
            PROVIDER_NAMESPACE,
            provider_manifests(image=IMAGE, exports=exports, invitations=True),
            provider_app.install_crds,
            provider_app.build,
        ),
    ]


def consumer_programs() -> list[StoryProgram]:
    """Return the programs of the consumer's cluster."""
    return [
        StoryProgram(
            KONNECTOR_NAME,
            KONNECTOR_NAMESPACE,
            konnector_manifests(image=IMAGE),
            konnector_app.install_crds,
            konnector_app.build,
        ),
        StoryProgram(
            BINDING_NAME,
            BINDING_NAMESPACE,
            binding_manifests(image=IMAGE),
            binding_app.install_crds,
            binding_app.build,
        ),
    ]


async def run(program: StoryProgram, admin: Client, *, cluster_name: str) -> None:
    """Apply the program's manifests as the administrator, then run it as its ServiceAccount.

    Runs until cancelled.
    """
    await create_all(admin, program.manifests)
    config = await as_service_account(admin, program.namespace, program.name)
    async with Client(config, user_agent=program.name, field_manager=program.name) as client:
        # With the rights of its ServiceAccount, so that a missing rule in the manifests shows
        # here.
        await program.install_crds(client)
        # All programs share this process, and nothing probes them.
        manager = Manager(health_address="")
        await program.build(manager, Cluster(cluster_name, client))
        await manager.run()
