"""The Compose file that binds services, to be given after their own, and its secret files."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import ROOT_VARIABLE
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.compose.operations import Plan, Put
from fairlead.binding.outside.compose.project import Project
from fairlead.binding.outside.documents import DocumentError, Documents
from fairlead.binding.outside.rendering import REDACTED, Bindings
from fairlead.binding.services.items import secret_name


class Override(msgspec.Struct):
    """What binds the services of a project, and why it is not all that the bindings ask for.

    ``files`` are the contents of secret files by folder and name. A folder's name has a hash of
    its content, so that Compose makes containers anew when that changes.
    """

    body: JSON
    files: dict[str, Mapping[str, bytes]]
    problems: list[str]


def override(
    project: Project, collection: Documents, options: BindingOptions, folder: str
) -> Override:
    """Bind services; ``folder`` is the path of secret files as Compose has to read it.

    Raises:
        DocumentError: two bindings have one uid, or a secret of the project is in the way.
    """
    plan = Plan(project)
    bindings = Bindings(collection, options, plan.workloads, plan.write)
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
                raise DocumentError(f"secrets.{secret}: this name is needed for a binding")
            secrets[secret] = {"file": _literal(f"{folder}/{place}/{key}")}
    body = {"services": services, "secrets": secrets}
    return Override({name: part for name, part in body.items() if part}, files, bindings.told())


def _service(puts: list[Put], files: dict[str, Mapping[str, bytes]]) -> JSON:
    environment: dict[str, str] = {}
    secrets: list[JSON] = []
    for put in puts:
        if put.root:
            environment[ROOT_VARIABLE] = put.root
        environment |= {name: _literal(value) for name, value in put.environment.items()}
        for path, content in put.directories.items():
            place = secret_name(put.volumes[path], content)
            files[place] = content
            secrets += [
                {"source": _secret(place, key), "target": f"{path}/{key}"} for key in content
            ]
    body: JSON = {"environment": dict(sorted(environment.items()))} if environment else {}
    if secrets:
        body["secrets"] = sorted(secrets, key=lambda one: str(one["target"]))
    return body


def _secret(place: str, key: str) -> str:
    return f"{place}.{key}"


def _literal(text: str) -> str:
    """A text that Compose does not interpolate."""
    return text.replace("$", "$$")


def hidden(body: JSON) -> JSON:
    """The same without the values of variables that come from Secrets."""
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
