"""The Compose file that binds services, for use after the project's, and its secret files."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import ROOT_VARIABLE
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.compose.operations import ComposePlan, Put
from fairlead.binding.outside.compose.project import Project
from fairlead.binding.outside.documents import DocumentError, Documents
from fairlead.binding.outside.rendering import REDACTED, RenderedBindings
from fairlead.binding.services.items import secret_name


class Override(msgspec.Struct):
    """The Compose file of a project's bindings, and the problems of incomplete ones.

    ``files`` are the secret files' contents by folder and name. A folder's name contains a hash of
    its content, so that Compose recreates containers after a change.
    """

    body: JSON
    files: dict[str, Mapping[str, bytes]]
    problems: list[str]


def override(
    project: Project, collection: Documents, options: BindingOptions, folder: str
) -> Override:
    """Bind services; ``folder`` is the path of secret files in the Compose file.

    Raises:
        DocumentError: two bindings have the same uid, or a secret of the project has our name.
    """
    plan = ComposePlan(project)
    bindings = RenderedBindings(collection, options, plan.workloads, plan.write)
    bindings.settle()
    services: JSON = {}
    secrets: JSON = {}
    files: dict[str, Mapping[str, bytes]] = {}
    for name in sorted(project.services):
        puts = [puts[name] for puts in plan.puts.values() if name in puts]
        if puts:
            services[name] = _service(puts, files)
    for place in sorted(files):
        for key in sorted(files[place]):
            secret = _secret(place, key)
            if secret in project.secrets:
                raise DocumentError(f"secrets.{secret}: a binding needs this name")
            secrets[secret] = {"file": _literal(f"{folder}/{place}/{key}")}
    body = {"services": services, "secrets": secrets}
    return Override(
        {name: part for name, part in body.items() if part}, files, bindings.messages()
    )


def _service(puts: list[Put], files: dict[str, Mapping[str, bytes]]) -> JSON:
    environment: dict[str, str] = {}
    secrets: list[JSON] = []
    for put in puts:
        if put.root:
            environment[ROOT_VARIABLE] = put.root
        environment |= {name: _literal(value) for name, value in put.environment.items()}
        for path, content in put.directories.items():
            # The hash in the name changes the service's configuration, which makes Compose
            # recreate it.
            place = secret_name(put.volumes[path], content)
            files[place] = content
            secrets += [
                {"source": _secret(place, key), "target": f"{path}/{key}"} for key in content
            ]
    body: JSON = {"environment": dict(sorted(environment.items()))} if environment else {}
    if secrets:
        body["secrets"] = sorted(secrets, key=lambda secret: str(secret["target"]))
    return body


def _secret(place: str, key: str) -> str:
    return f"{place}.{key}"


def _literal(text: str) -> str:
    """Escape a text against Compose's interpolation."""
    return text.replace("$", "$$")


def hidden(body: JSON) -> JSON:
    """Return the Compose file without values of variables from Secrets."""
    services = {
        name: service
        | (
            {
                "environment": {
                    variable: value if variable == ROOT_VARIABLE else REDACTED
                    for variable, value in service["environment"].items()
                }
            }
            if "environment" in service
            else {}
        )
        for name, service in body.get("services", {}).items()
    }
    return {**body, "services": services} if services else body
