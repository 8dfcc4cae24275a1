"""Rights of people on what is bound, for bindings that ``fairlead bind`` has not made."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.kubebind import APISERVICEBINDINGS, APIServiceBinding, GroupResource, crd_name
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client
from fairlead.client.lookups import find, list_all, unknown
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.rights import user_roles


async def bound_kinds(client: Client, binding: Object) -> list[GroupResource]:
    """Return the kinds of a binding whose CRDs in this cluster it owns.

    What a provider exports may have the name of a kind that this cluster has by itself.

    Raises:
        ClientError: the server refused a look or cannot be reached.
    """
    kinds: list[GroupResource] = []
    for item in binding.decode(APIServiceBinding).status.bound_schemas:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, crd_name(item.resource, item.group))
        if crd is not None and crd.meta.owned_by(binding.meta.uid):
            kinds.append(GroupResource(group=item.group, resource=item.resource))
    return kinds


async def roles_for_users(
    client: Client, names: Sequence[str], progress: Progress = lambda _line: None
) -> list[JSON]:
    """Return the ClusterRoles by which people use what is bound, by these or all bindings.

    Args:
        client: a client of the consumer's cluster.
        names: bindings; none for all.
        progress: called for each binding that binds nothing yet.

    Raises:
        BindError: no binding has one of the names.
        ClientError: the server refused a look or cannot be reached.
    """
    bindings = {found.meta.name: found for found in await list_all(client, APISERVICEBINDINGS)}
    for name in names:
        if name not in bindings:
            raise BindError(unknown(APISERVICEBINDINGS.kind, name, list(bindings)))
    roles: list[JSON] = []
    for name in names or sorted(bindings):
        kinds = await bound_kinds(client, bindings[name])
        if kinds:
            roles += user_roles(name, kinds)
        else:
            progress(f"APIServiceBinding {name} binds no kind yet: there is nothing to allow")
    return roles
