"""The story: a database in one cluster reaches an app in another.

Each function is one step. It does the work of the platform team or the app team, waits until the
system has answered, and checks the answer; a wrong answer ends the story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.api import resource
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import Client, Forbidden, NotFound, parse_kubeconfig
from fairlead.client.lookups import Until, wait_for
from fairlead.demo import objects
from fairlead.demo.pods.runner import run_workload
from fairlead.demo.postgres import database
from fairlead.demo.steps import StoryError, expect
from fairlead.demo.world import OPERATOR_NAMESPACE, World
from fairlead.portal.client.addresses import Refused


Saw = Callable[[str], None]

PATIENCE_SECONDS = 120.0
"""Seconds that a wait of a step may take; it takes about one on an idle machine."""

ACCESSES = Resource(objects.ACCESS_GROUP, "v1", "postgresaccesses", "PostgresAccess")
SERVERS = Resource(
    objects.ACCESS_GROUP, "v1", "postgresservers", "PostgresServer", namespaced=False
)
TEMPLATES = Resource(
    "kube-bind.io",
    "v1alpha2",
    "apiserviceexporttemplates",
    "APIServiceExportTemplate",
    namespaced=False,
)
API_BINDINGS = Resource(
    "kube-bind.io", "v1alpha2", "apiservicebindings", "APIServiceBinding", namespaced=False
)
SERVICE_BINDINGS = Resource("servicebinding.io", "v1", "servicebindings", "ServiceBinding")

# One privilege goes and another one comes, so that a REVOKE and a GRANT are seen.
FIRST_PRIVILEGES = ("CONNECT", "SELECT", "INSERT")
LATER_PRIVILEGES = ("CONNECT", "SELECT", "UPDATE")


def condition_is_true(name: str) -> Until:
    """Return a check of a condition, which returns "" if it is True, else the reason why not."""

    def check(object_: Object | None) -> str:
        if object_ is None:
            return "does not exist"
        conditions = (object_.to_dict().get("status") or {}).get("conditions") or []
        condition = next((item for item in conditions if item.get("type") == name), None)
        if condition is None:
            return f"has no condition {name} yet"
        if condition.get("status") == "True":
            return ""
        why = f"{condition.get('reason', '')} {condition.get('message', '')}".strip()
        return f"{name} is {condition.get('status')}: {why}"

    return check


def exists(object_: Object | None) -> str:
    """Return "does not exist" without an object, else ""."""
    return "" if object_ is not None else "does not exist"


def gone(object_: Object | None) -> str:
    """Return the reason why an object still exists, "" if it does not."""
    if object_ is None:
        return ""
    if object_.meta.deleting:
        return f"is being deleted, held by {', '.join(object_.meta.finalizers) or 'nothing'}"
    return "still exists"


async def ready(world: World) -> None:
    """Wait until both clusters serve the programs' CRDs and the front door answers.

    Raises:
        WaitTimeout: a CRD is not Established in time.
        FrontDoorError: the front door is not open in time.
    """
    for client, names in (
        (world.provider, (SERVERS.group_resource, TEMPLATES.group_resource)),
        (world.consumer, (SERVICE_BINDINGS.group_resource, API_BINDINGS.group_resource)),
    ):
        for name in names:
            await wait_for(
                client,
                resource.CUSTOMRESOURCEDEFINITIONS,
                name,
                until=condition_is_true("Established"),
                timeout=PATIENCE_SECONDS,
            )
    await world.door.open()


async def offer(world: World, saw: Saw) -> None:
    """Offer PostgresAccess to consumers; the credentials stay with the operator."""
    client, server = world.provider, world.database
    await database.prepare(server, objects.DATABASE)
    await client.create(
        resource.SECRETS,
        objects.server_secret(OPERATOR_NAMESPACE, server.username, server.password),
        OPERATOR_NAMESPACE,
    )
    await client.create(SERVERS, objects.server(server.host, server.port))
    await client.create(TEMPLATES, objects.template())
    role, role_binding = objects.may_bind()
    await client.create(resource.CLUSTERROLES, role)
    await client.create(resource.CLUSTERROLEBINDINGS, role_binding)
    await wait_for(
        client, SERVERS, objects.SERVER, until=condition_is_true("Ready"), timeout=PATIENCE_SECONDS
    )
    crd = await client.get(
        resource.CUSTOMRESOURCEDEFINITIONS, f"postgresaccesses.{objects.ACCESS_GROUP}"
    )
    expect(
        crd.meta.labels.get("kube-bind.io/exported") == "true",
        "the CRD postgresaccesses is not labelled kube-bind.io/exported=true",
    )
    saw(f"PostgresServer {objects.SERVER} is Ready; its password is in {OPERATOR_NAMESPACE}")
    saw(f"template {objects.TEMPLATE} offers PostgresAccess and claims the generated Secret")
    saw(f"RBAC lets team {objects.TEAM} bind it, and no other team")


async def sign_in(world: World, saw: Saw) -> None:
    """Sign two people in by a browser; each is offered the templates that RBAC allows."""
    door, (ada, ben) = world.door, world.door.people
    async with asyncio.TaskGroup() as group:
        for person in (ada, ben):
            group.create_task(door.log_in(person))
    teams = " and ".join(f"{person.name} of team {person.team}" for person in (ada, ben))
    saw(f"{teams} have signed in at {door.url}, as `fairlead login` does")
    async with door.asked_by(ada) as backend:
        offered = [item["metadata"]["name"] for item in await backend.templates()]
    expect(offered == [objects.TEMPLATE], f"{ada.name} is offered {offered}")
    async with door.asked_by(ben) as backend:
        others = [item["metadata"]["name"] for item in await backend.templates()]
        expect(not others, f"{ben.name} is offered {others}")
        refusal = await _refusal(backend.bind(objects.bind_request(await _identity(world))))
    saw(f"{ada.name} is offered template {objects.TEMPLATE}, and {ben.name} none")
    saw(f"{ben.name} asks for it all the same: {refusal}")


async def _refusal(request: Awaitable[object]) -> str:
    """Return the refusal of a request as one line."""
    try:
        await request
    except Refused as error:
        expect(error.status == 403, f"the front door has failed: {error}")
        return str(error)
    raise StoryError("a team has bound what RBAC does not let it bind")


async def _identity(world: World) -> str:
    """Return the identity by which providers know the consumer's cluster."""
    return (await world.consumer.get(resource.NAMESPACES, "kube-system")).meta.uid


async def bind(world: World, saw: Saw) -> None:
    """Bind over HTTP as a signed-in person; check that the kubeconfig cannot read credentials."""
    ada, _ = world.door.people
    async with world.door.asked_by(ada) as backend:
        response = await backend.bind(objects.bind_request(await _identity(world)))
    async with Client(parse_kubeconfig(response.kubeconfig)) as bound:
        await _expect_forbidden(
            bound.get(resource.SECRETS, f"{objects.SERVER}-admin", OPERATOR_NAMESPACE),
            "the answered kubeconfig can read the administrator's credentials",
        )
        await _expect_forbidden(
            bound.list(resource.SECRETS), "the answered kubeconfig can list every Secret"
        )
    saw("the answered kubeconfig may not read the administrator's credentials: Forbidden")
    await world.bind(response)
    bindings = await world.consumer.list(API_BINDINGS)
    expect(len(bindings.items) == 1, f"{len(bindings.items)} APIServiceBindings instead of 1")
    world.binding_name = bindings.items[0].meta.name
    await wait_for(
        world.consumer,
        API_BINDINGS,
        world.binding_name,
        until=condition_is_true("Ready"),
        timeout=PATIENCE_SECONDS,
    )
    await wait_for(
        world.consumer,
        resource.CUSTOMRESOURCEDEFINITIONS,
        f"postgresaccesses.{objects.ACCESS_GROUP}",
        until=condition_is_true("Established"),
        timeout=PATIENCE_SECONDS,
    )
    saw(
        f"APIServiceBinding {world.binding_name} is Ready; the consumer has the CRD PostgresAccess"
    )


async def _expect_forbidden(request: object, otherwise: str) -> None:
    try:
        await request  # type: ignore[misc]
    except Forbidden:
        return
    # Only an answered request comes here, and an empty list fails.
    expect([], otherwise)


async def create(world: World, saw: Saw) -> None:
    """Write the app team's three manifests."""
    client = world.consumer
    await client.create(resource.NAMESPACES, objects.namespace())
    await client.create(ACCESSES, objects.access(FIRST_PRIVILEGES), objects.NAMESPACE)
    await client.create(resource.DEPLOYMENTS, objects.deployment(), objects.NAMESPACE)
    await client.create(SERVICE_BINDINGS, objects.binding(), objects.NAMESPACE)
    saw("PostgresAccess, Deployment and ServiceBinding are in namespace shop")


async def arrive(world: World, saw: Saw) -> None:
    """Wait until role, Secret and projection have arrived."""
    client = world.consumer
    await wait_for(
        client,
        ACCESSES,
        objects.ACCESS,
        objects.NAMESPACE,
        until=condition_is_true("Ready"),
        timeout=PATIENCE_SECONDS,
    )
    await expect_grants(world, FIRST_PRIVILEGES)
    plain = await database.is_plain_login(world.database, objects.USERNAME)
    expect(plain, f"role {objects.USERNAME} is more than a login, or less")
    saw(f"role {objects.USERNAME} has exactly {', '.join(FIRST_PRIVILEGES)}")
    secret = await wait_for(
        client,
        resource.SECRETS,
        objects.SECRET,
        objects.NAMESPACE,
        until=exists,
        timeout=PATIENCE_SECONDS,
    )
    keys = sorted((secret.to_dict().get("data") or {}) if secret else [])
    expected = ["database", "dbname", "host", "password", "port", "provider", "type", "uri"]
    expect(not set(expected) - set(keys), f"the Secret has only the entries {', '.join(keys)}")
    saw(f"Secret {objects.SECRET} has come back: {', '.join(keys)}")
    await wait_for(
        client,
        SERVICE_BINDINGS,
        objects.APP,
        objects.NAMESPACE,
        until=condition_is_true("Ready"),
        timeout=PATIENCE_SECONDS,
    )
    app = await client.get(resource.DEPLOYMENTS, objects.APP, objects.NAMESPACE)
    expect(projected(app), "the Deployment's pod template does not carry the binding")
    saw("the Deployment's pod template carries the binding")


def projected(deployment: Object) -> bool:
    """Whether the pod template mounts the login and sets SERVICE_BINDING_ROOT."""
    pod = deployment.to_dict()["spec"]["template"]["spec"]
    secrets = {(volume.get("secret") or {}).get("secretName") for volume in pod.get("volumes", [])}
    env = {item["name"] for item in pod["containers"][0].get("env", [])}
    return objects.SECRET in secrets and "SERVICE_BINDING_ROOT" in env


def allowed(privileges: tuple[str, ...]) -> set[str]:
    """Return the line that the app prints for these privileges."""
    words = {"SELECT": "read orders", "INSERT": "add an order", "UPDATE": "change an order"}
    return {words[privilege] for privilege in privileges if privilege in words}


async def expect_grants(world: World, privileges: tuple[str, ...]) -> None:
    """Wait until the database has exactly these grants for the role.

    Raises:
        StoryError: after :data:`PATIENCE_SECONDS` it still has others.
    """
    # USAGE on the schema comes with each grant in it.
    expected = {("schema", "public", "USAGE")} | {
        ("database", objects.DATABASE, name) if name == "CONNECT" else ("table", "orders", name)
        for name in privileges
    }
    granted: set[database.Grant] = set()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while granted != expected:
                granted = await database.grants_of(
                    world.database, objects.DATABASE, objects.USERNAME
                )
                await asyncio.sleep(0.02)
    except TimeoutError:
        expect(granted == expected, f"grants are {sorted(granted)} instead of {sorted(expected)}")


async def run_app(world: World, saw: Saw, privileges: tuple[str, ...]) -> None:
    """Run the app from its pod template; it logs in and prints its rights."""
    result = await run_workload(
        world.consumer, resource.DEPLOYMENTS, objects.NAMESPACE, objects.APP, capture=True
    )
    lines = result.output.splitlines()
    expect(
        result.exit_code == 0, f"the app ended with {result.exit_code}: {result.output.strip()}"
    )
    who = f"current_user {objects.USERNAME} in database {objects.DATABASE}"
    expect(who in lines, f"the app said {lines[:1]} instead of '{who}'")
    may, may_not = _said(lines, "may "), _said(lines, "may not ")
    expect(may == allowed(privileges), f"the app may {sorted(may)}")
    expect("wrong password refused" in lines, "a wrong password was not refused")
    saw(who)
    saw(f"may {', '.join(sorted(may))}")
    saw(f"may not {', '.join(sorted(may_not))}")
    saw("wrong password refused")


def _said(lines: list[str], start: str) -> set[str]:
    """Return the rest of the app's lines that begin with ``start``, without denials."""
    rest = {line.removeprefix(start) for line in lines if line.startswith(start)}
    return {what for what in rest if not what.startswith("not ")}


async def change(world: World, saw: Saw) -> None:
    """Change the grants in the consumer's object, and wait for the database."""
    patch: JSON = {"spec": {"grants": objects.access(LATER_PRIVILEGES)["spec"]["grants"]}}
    await world.consumer.merge_patch(ACCESSES, objects.ACCESS, objects.NAMESPACE, patch)
    await expect_grants(world, LATER_PRIVILEGES)
    saw(f"the role now has exactly {', '.join(LATER_PRIVILEGES)}")


async def clean_up(world: World, saw: Saw) -> None:
    """Delete the story's objects, and check that none is left in either cluster."""
    consumer, provider = world.consumer, world.provider
    copies = [item.key for item in (await provider.list(ACCESSES)).items]
    expect(len(copies) == 1, f"{len(copies)} copies in the provider cluster instead of 1")
    copy_namespace, copy_name = copies[0]
    # From the app to the API's binding, each awaited, so that a leftover shows which deletion left
    # it.
    await _delete(consumer, SERVICE_BINDINGS, objects.APP, objects.NAMESPACE)
    app = await consumer.get(resource.DEPLOYMENTS, objects.APP, objects.NAMESPACE)
    expect(not projected(app), "the projection is still in the Deployment")
    await _delete(consumer, ACCESSES, objects.ACCESS, objects.NAMESPACE)
    await _gone(provider, ACCESSES, copy_name, copy_namespace)
    exists_still = await database.role_exists(world.database, objects.USERNAME)
    expect(not exists_still, f"role {objects.USERNAME} still exists")
    await _gone(consumer, resource.SECRETS, objects.SECRET, objects.NAMESPACE)
    await _gone(provider, resource.SECRETS, objects.SECRET, copy_namespace)
    await _delete(consumer, resource.DEPLOYMENTS, objects.APP, objects.NAMESPACE)
    saw("the role, both Secrets, the projection and the provider's copy are gone")
    await _delete(consumer, API_BINDINGS, world.binding_name)
    await _gone(
        consumer, resource.CUSTOMRESOURCEDEFINITIONS, f"postgresaccesses.{objects.ACCESS_GROUP}"
    )
    saw("the APIServiceBinding and the consumer's CRD are gone")


async def _delete(client: Client, kind: Resource, name: str, namespace: str = "") -> None:
    try:
        await client.delete(kind, name, namespace)
    except NotFound:
        return
    await _gone(client, kind, name, namespace)


async def _gone(client: Client, kind: Resource, name: str, namespace: str = "") -> None:
    await wait_for(client, kind, name, namespace, until=gone, timeout=PATIENCE_SECONDS)
