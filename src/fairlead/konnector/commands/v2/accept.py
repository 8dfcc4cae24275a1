"""Gives the konnector its rights for bindings and Connections that another party has written.

The konnector can give itself no rights: an administrator does, who sees what is bound and copied.
"""

from __future__ import annotations

from fairlead.api.kbind import ClusterBinding, Connection
from fairlead.api.kbind.names import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.rights import user_roles
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client, NotFound
from fairlead.client.lookups import WaitTimeout, find, list_all, unknown, wait_for
from fairlead.konnector.commands.consumer_objects import write_roles
from fairlead.konnector.commands.readiness import Deadline, WaitOptions, within
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.commands.v2.bind import KbindOptions
from fairlead.konnector.commands.v2.checks import TURN_ON, check_apis, find_account
from fairlead.konnector.commands.v2.estate import apis_of, remove_roles, user_role_keys
from fairlead.konnector.commands.v2.plan import (
    describe_related,
    roles_of_binding,
    roles_of_connection,
)
from fairlead.konnector.commands.v2.targets import KbindTarget
from fairlead.konnector.commands.v2.waiting import unready, until_ready
from fairlead.konnector.v2.bindings.crds import is_made


_BLAME = "delete it, or do not trust this provider"


async def accept_kbind(client: Client, target: KbindTarget, options: KbindOptions) -> None:
    """Give the konnector the rights that a binding or a Connection needs, and wait for Ready.

    Doing it again changes nothing, unless what is bound or exported has changed.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        target: ClusterBinding, Binding or Connection.
        options: how; ``progress`` is told all that is bound and copied before rights are given.

    Raises:
        BindError: there is no such object, no provider may offer its kinds, or it did not get
            Ready in time.
        ClientError: a server refused or cannot be reached.
    """
    deadline = Deadline(options.timeout)
    waiting = WaitOptions(client, deadline, options.progress, options.namespace)
    accept = _accept_connection if target.resource == CONNECTIONS else _accept_binding
    work = accept(waiting, target, options)
    await within(options.timeout, work, lambda: f"accepting {target.title}")


async def _accept_binding(
    waiting: WaitOptions, target: KbindTarget, options: KbindOptions
) -> None:
    client, progress = waiting.client, waiting.progress
    obj = await _find(client, target)
    spec = obj.decode(ClusterBinding).spec
    apis = apis_of(obj)
    await check_apis(client, f"{target.title} binds", apis, blame=_BLAME)
    for line in [*(f"binds {api}" for api in apis), *describe_related(spec.related_resources)]:
        progress(line)
    account = await find_account(client, options.namespace)
    await write_roles(client, roles_of_binding(obj.to_dict(), account), progress)
    await until_ready(waiting, target)
    await _let_people(client, target, apis, options)


async def _accept_connection(
    waiting: WaitOptions, target: KbindTarget, options: KbindOptions
) -> None:
    client, progress = waiting.client, waiting.progress
    obj = await _find(client, target)
    spec = obj.decode(Connection).spec
    if not spec.auto_bind and spec.schema.pull_policy != "All":
        raise BindError(
            f"{target.title} binds nothing by itself: accept its bindings instead, for example "
            "with `fairlead accept clusterbinding/NAME`"
        )
    connection = await _exporting(waiting, target)
    apis = [api.name for api in connection.status.exported_apis]
    await check_apis(client, f"{target.title} creates", apis, blame=_BLAME)
    verb = "binds" if spec.auto_bind else "creates the CustomResourceDefinition of"
    for api in apis:
        progress(f"{verb} {api}")
    await write_roles(client, roles_of_connection(obj.to_dict(), apis), progress)
    await until_ready(waiting, target)
    if spec.auto_bind and apis:
        binding = KbindTarget(CLUSTERBINDINGS, target.key)
        await until_ready(waiting, binding)
        await _let_people(client, binding, apis, options)


async def _find(client: Client, target: KbindTarget) -> Object:
    place, name = target.key
    try:
        obj = await find(client, target.resource, name, place)
    except NotFound:
        raise BindError(f"this cluster has no {target.resource.kind}s: {TURN_ON}") from None
    if obj is None:
        names = [str(other.key) for other in await list_all(client, target.resource)]
        raise BindError(unknown(target.resource.kind, str(target.key), names))
    if obj.meta.deleting:
        raise BindError(f"{target.title} is being deleted: there is nothing to accept")
    return obj


async def _exporting(waiting: WaitOptions, target: KbindTarget) -> Connection:
    """Return a Connection, once it says what its provider exports.

    Raises:
        BindError: it does not in time; the message has its words.
    """
    waiting.progress(f"waiting for the exports of {target.title}")

    def unknown_exports(obj: Object | None) -> str:
        if obj is not None and obj.decode(Connection).status.remote_cluster_uid:
            return ""
        return unready(obj) or "its status does not name the provider's cluster yet"

    try:
        left = waiting.deadline.left()
        obj = await wait_for(
            waiting.client, CONNECTIONS, target.key.name, until=unknown_exports, timeout=left
        )
    except WaitTimeout as error:
        raise BindError(str(error)) from None
    if obj is None:
        raise BindError(f"{target.title} was deleted meanwhile")
    return obj.decode(Connection)


async def _let_people(
    client: Client, target: KbindTarget, apis: list[str], options: KbindOptions
) -> None:
    """Write the roles of people on the APIs whose CRDs a konnector has made, or delete them.

    A kind that this cluster has by itself has roles of its own.
    """
    if not options.user_roles:
        await remove_roles(client, target, options.progress, user_role_keys(target))
        return
    pulled = []
    for api in apis:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, api)
        if crd is not None and is_made(crd):
            pulled.append(api)
    if pulled:
        roles: list[JSON] = user_roles(target.key.name, pulled, target.key.namespace)
        await write_roles(client, roles, options.progress)
