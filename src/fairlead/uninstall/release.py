"""Whether Helm uninstalls a release, as the labels of the release's Secrets tell.

Helm stores each revision of a release in a Secret. Before it makes the Job of a pre-delete hook,
it labels the last revision's with ``status: uninstalling``. Source: ``pkg/action/hooks.go`` and
``pkg/storage/driver/secrets.go`` of Helm 3 and 4. Other storage drivers, and tools that apply
what ``helm template`` prints, write no such Secret.
"""

from __future__ import annotations

from fairlead.api.manifests import rule
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client
from fairlead.client.lookups import find


RULES = [rule("", [SECRETS.plural], ("list",))]
"""Rights of the look in the release's namespace; RBAC cannot narrow a list to labels.

Those in the cluster are among the hook's others.
"""


async def why_kept(client: Client, namespace: str, name: str) -> str:
    """Return why a release does not count as being uninstalled; "" if Helm is at it.

    Raises:
        ClientError: the server refused the look or cannot be reached.
    """
    # A tool that only renders the chart may name a namespace that is nowhere, and so has no Role.
    if await find(client, NAMESPACES, namespace) is None:
        return f"there is no namespace {namespace}"
    labels = f"owner=helm,name={name}"
    # Their content has all values of the release, which may be secret.
    secrets = await client.list(SECRETS, namespace, labels=labels, metadata_only=True)
    if not secrets.items:
        return f"namespace {namespace} has no Secret with the labels {labels}"
    # An uninstallation that failed leaves its mark on an older revision after a rollback.
    status = max(secrets.items, key=_revision).meta.labels.get("status", "unknown")
    if status == "uninstalling":
        return ""
    return f"its last revision in namespace {namespace} is {status}, not uninstalling"


def _revision(secret: Object) -> int:
    version = secret.meta.labels.get("version", "")
    return int(version) if version.isdecimal() else 0
