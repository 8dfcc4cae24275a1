"""The binding controllers for tests, run as the ServiceAccount of their manifests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from tests.support.planes import ControlPlane
from tests.support.waiting import SECONDS

from fairlead.api.manifests import READ_VERBS, rule
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, SECRETS, Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.app import controllers, install_crds
from fairlead.binding.bindablekinds import BindableKindsController
from fairlead.binding.controller import BindingController
from fairlead.binding.manifests import NAME, controller_role, manifests
from fairlead.binding.options import DEFAULT_NAMESPACE, BindingOptions
from fairlead.client import Client, ClusterConfig, parse_kubeconfig
from fairlead.client.lookups import wait_for
from fairlead.demo.identity import as_service_account, create_all
from fairlead.runtime import Cluster, Request, Result
from fairlead.runtime import install_crds as install
from fairlead_sandbox import Sandbox


PROJECTOR = "projector.servicebinding.io"
"""Prefix of the annotations of the reference runtime of servicebinding.io."""
DEFAULT: JSON = {
    "versions": [
        {
            "version": "*",
            "annotations": ".spec.template.metadata.annotations",
            "containers": [
                {"path": f".spec.template.spec.{kind}[*]", "name": ".name"}
                | {"env": ".env", "volumeMounts": ".volumeMounts"}
                for kind in ("initContainers", "containers")
            ],
            "volumes": ".spec.template.spec.volumes",
        }
    ]
}
"""The mapping that it notes for a kind without one of its own."""
GROUP = "binding-test.example.org"
DATABASES = Resource(GROUP, "v1", "databases", "Database")
RIGS = Resource(GROUP, "v1", "rigs", "Rig")
DATA = {"type": "postgresql", "host": "db", "password": "s3cret"}
"""Of the Secret ``login`` that services have."""


def crd(resource: Resource) -> JSON:
    """A CRD without any schema to speak of."""
    schema: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def role(resource: Resource, verbs: Sequence[str] = READ_VERBS) -> JSON:
    """The rights that whoever offers a kind gives to binding controllers."""
    return controller_role(
        f"test-{resource.group_resource}", [rule(resource.group, [resource.plural], verbs)]
    )


async def prepare(admin: Client) -> None:
    """CRDs of both APIs, manifests, and the kinds of the tests with their roles."""
    await install_crds(admin)
    await install(admin, [crd(DATABASES), crd(RIGS)])
    # Not what everybody gets: other tests on this control plane list the rights of somebody.
    own = [one for one in manifests(image="fairlead") if not _is_everybodys(one)]
    await create_all(admin, own)
    await create_all(admin, [role(DATABASES), role(RIGS, (*READ_VERBS, "update", "patch"))])


def _is_everybodys(document: JSON) -> bool:
    subjects = document.get("subjects") or []
    return any(subject["kind"] == "Group" for subject in subjects)


@contextlib.asynccontextmanager
async def administrator(control_plane: ControlPlane | Sandbox) -> AsyncIterator[Client]:
    """Whoever prepares a control plane for bindings."""
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client)
        yield client


@contextlib.asynccontextmanager
async def running(
    admin: Client,
    options: BindingOptions | None = None,
    connect: Callable[[ClusterConfig], Client] = Client,
) -> AsyncIterator[list[BindingController]]:
    """The controllers at work, with the rights of the manifests and no others."""
    config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
    async with connect(config) as client:
        cluster = Cluster("binding", client)
        found = controllers(cluster, options)
        for controller in found:
            _count(controller)
        kinds = BindableKindsController(cluster)
        async with asyncio.TaskGroup() as group:
            work = (cluster.run(), kinds.run(), *(c.run() for c in found))
            started = [group.create_task(task) for task in work]
            try:
                yield found
            finally:
                for task in started:
                    task.cancel()


PASSES: Counter[tuple[str, str]] = Counter()
"""How often a binding was reconciled, by its namespace and name."""


def _count(controller: BindingController) -> None:
    reconcile = controller.reconcile

    async def counted(request: Request) -> Result | None:
        PASSES[request.namespace, request.name] += 1
        return await reconcile(request)

    controller.controller._reconcile = counted


class Team:
    """A namespace and what a team does in it."""

    def __init__(self, admin: Client, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace

    @classmethod
    async def arrive(cls, admin: Client, *, login: bool = True) -> Team:
        """A new one; with ``login`` it has that Secret already."""
        team = cls(admin, f"binding-{uuid.uuid4().hex[:8]}")
        await team.start()
        if login:
            await team.create(SECRETS, "login", data=encoded(**DATA))
        return team

    async def start(self) -> None:
        body: JSON = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace},
        }
        await self.admin.create(NAMESPACES, body)

    async def create(self, resource: Resource, name: str, **body: object) -> Object:
        labels = body.pop("labels", {})
        whole: JSON = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            **body,
        }
        return await self.admin.create(resource, whole, self.namespace)

    async def deployment(self, name: str, labels: dict[str, str] | None = None) -> Object:
        spec: JSON = {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            },
        }
        return await self.create(DEPLOYMENTS, name, labels=labels or {}, spec=spec)

    async def patch(
        self, resource: Resource, name: str, patch: JSON, *, subresource: str = ""
    ) -> Object:
        return await self.admin.merge_patch(
            resource, name, self.namespace, patch, subresource=subresource
        )

    async def delete(self, resource: Resource, name: str) -> None:
        await self.admin.delete(resource, name, self.namespace)

    async def when(self, resource: Resource, name: str, until: Callable[[JSON], bool]) -> JSON:
        """The object once it is as wanted; {} stands for an absent one."""

        def missing(found: Object | None) -> str:
            body = found.to_dict() if found is not None else {}
            return "" if until(body) else f"is {body}"

        found = await wait_for(
            self.admin, resource, name, self.namespace, until=missing, timeout=SECONDS
        )
        return found.to_dict() if found is not None else {}

    async def says(
        self,
        name: str,
        type_: str,
        status: str,
        reason: str,
        *,
        text: str = "",
        resource: Resource = SERVICEBINDINGS,
    ) -> JSON:
        """The binding once a condition says this."""

        def holds(body: JSON) -> bool:
            found = condition(body, type_)
            return (found.get("status"), found.get("reason")) == (status, reason) and (
                text in found["message"]
            )

        return await self.when(resource, name, holds)


def condition(body: JSON, type_: str) -> JSON:
    """A condition of an object; {} when it was never set."""
    for item in (body.get("status") or {}).get("conditions", []):
        if item["type"] == type_:
            found: JSON = item
            return found
    return {}


def encoded(**entries: str) -> dict[str, str]:
    """The data of a Secret."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in entries.items()}


def bind(**changes: object) -> JSON:
    """What a binding of the Secret ``login`` to the Deployment ``web`` asks for."""
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    service = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
    return {"workload": workload, "service": service, **changes}


def pod(body: JSON) -> JSON:
    """The pod spec of a workload."""
    found: JSON = body["spec"]["template"]["spec"]
    return found


def mounted(body: JSON) -> str:
    """The Secret that the first volume of a workload mounts, "" without volumes."""
    volumes = pod(body).get("volumes") if body else None
    return str(volumes[0]["secret"]["secretName"]) if volumes else ""
