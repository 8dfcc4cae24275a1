"""Reads for the bundle, with the caller's rights; nothing is written to a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from fairlead.api import kbind, kubebind
from fairlead.api import postgresaccess as access
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, EVENTS, PODS, SECRETS, Resource
from fairlead.api.servicebinding import spec as servicebinding
from fairlead.client import Client, ClientError
from fairlead.client.errors import NotFound
from fairlead.support.redaction import Redaction, values_of, values_of_pod


OURS = "app.kubernetes.io/part-of=fairlead"
_LINES = 5_000
"""Lines of each log, from its end."""
_BYTES = 4 * 1024 * 1024
"""Bytes of each log."""
UNREAD = "unread.txt"


class Bundle(msgspec.Struct):
    """Files by their names, and what could not be read."""

    files: dict[str, str] = {}
    unread: list[str] = []


def resources() -> Iterator[Resource]:
    """Yield the kinds of all programs."""
    crds = [
        *(*kubebind.provider_crds(), *kubebind.consumer_crds(), *kbind.crds()),
        *(*access.crds(), *servicebinding.crds()),
    ]
    for name in sorted({crd["metadata"]["name"] for crd in crds}):
        spec = next(crd["spec"] for crd in crds if crd["metadata"]["name"] == name)
        stored = next(served["name"] for served in spec["versions"] if served["storage"])
        names = spec["names"]
        yield Resource(
            spec["group"], stored, names["plural"], names["kind"], spec["scope"] == "Namespaced"
        )


async def collect(client: Client, progress: Callable[[str], None]) -> Bundle:
    """Return the bundle of a cluster; ``progress`` gets a line for each part.

    Raises:
        ConnectionFailed: the server cannot be reached.
        Unauthorized: it does not know the caller.
    """
    return await _Collecting(client, progress).bundle()


class _Collecting:
    def __init__(self, client: Client, progress: Callable[[str], None]) -> None:
        self._client = client
        self._progress = progress
        self._documents: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self._unread: list[str] = []
        self._values: list[str] = []
        self._namespaces: set[str] = set()

    async def bundle(self) -> Bundle:
        pods = await self._programs()
        await self._objects()
        await self._events()
        await self._output(pods)
        await self._secrets()
        redaction = Redaction(self._values)
        files = {
            name: msgspec.json.format(
                msgspec.json.encode(redaction.document(document)), indent=2
            ).decode()
            + "\n"
            for name, document in self._documents.items()
        }
        files |= {name: redaction.text(text) for name, text in self._texts.items()}
        unread = [redaction.text(line) for line in self._unread]
        files[UNREAD] = "".join(f"{line}\n" for line in unread) or "all could be read\n"
        self._progress(f"unread: {len(unread)} parts, which {UNREAD} names")
        return Bundle(files, unread)

    async def _programs(self) -> Sequence[JSON]:
        """Read what runs, and return the Pods."""
        # Refused or not, the server says at once whether it can be reached.
        server = msgspec.json.decode(await self._client.request("GET", "/version"))
        deployments = await self._list(DEPLOYMENTS, labels=OURS)
        pods = await self._list(PODS, labels=OURS)
        for pod in (*deployments, *pods):
            self._namespaces.add(pod["metadata"]["namespace"])
            self._values += values_of_pod(pod)
        self._documents["versions.json"] = {
            "fairlead": version("fairlead"),
            "kubernetes": server.get("gitVersion"),
            "programs": [_deployment(body) for body in deployments],
        }
        self._documents["pods.json"] = [_pod(body) for body in pods]
        self._progress(
            f"versions: Kubernetes {server.get('gitVersion')}, {len(deployments)} Deployments, "
            f"{len(pods)} Pods"
        )
        return pods

    async def _objects(self) -> None:
        number = 0
        for resource in resources():
            objects = await self._list(resource)
            self._namespaces |= {body["metadata"].get("namespace", "") for body in objects} - {""}
            number += len(objects)
            if objects:
                self._documents[f"objects/{resource.group_resource}.json"] = [
                    _conditions(body) for body in objects
                ]
        self._progress(f"conditions: {number} objects")

    async def _events(self) -> None:
        groups = {resource.group for resource in resources()}
        events = [
            body
            for body in await self._list(EVENTS)
            if body["metadata"].get("namespace") in self._namespaces
            or body.get("involvedObject", {}).get("apiVersion", "").partition("/")[0] in groups
        ]
        self._documents["events.json"] = [_event(body) for body in events]
        self._progress(f"events: {len(events)}")

    async def _output(self, pods: Sequence[JSON]) -> None:
        """Read logs and metrics of the programs' Pods."""
        for pod in pods:
            meta = pod["metadata"]
            namespace, name = meta["namespace"], meta["name"]
            statuses = pod.get("status", {}).get("containerStatuses", ())
            restarted = {status["name"] for status in statuses if status.get("restartCount")}
            for container in pod["spec"]["containers"]:
                for previous in (False, True):
                    if previous and container["name"] not in restarted:
                        continue
                    end = ".previous" * previous
                    await self._text(
                        f"logs/{namespace}/{name}/{container['name']}{end}.log",
                        PODS.path(namespace, name, "log"),
                        {
                            "container": container["name"],
                            "previous": str(previous).lower(),
                            "tailLines": str(_LINES),
                            "limitBytes": str(_BYTES),
                            "timestamps": "true",
                        },
                    )
            for port in (
                port["containerPort"]
                for container in pod["spec"]["containers"]
                for port in container.get("ports", ())
                if port.get("name") == "metrics"
            ):
                path = f"{PODS.path(namespace, f'{name}:{port}')}/proxy/metrics"
                await self._text(f"metrics/{namespace}/{name}.txt", path)
        for part in ("logs", "metrics"):
            self._progress(f"{part}: {sum(name.startswith(part) for name in self._texts)}")

    async def _secrets(self) -> None:
        """Read the values that must not be in the bundle."""
        for namespace in sorted(self._namespaces):
            for secret in await self._list(SECRETS, namespace):
                self._values += values_of(secret)
        self._progress(f"secrets: {len(self._values)} values are looked for, none is written")

    async def _list(
        self, resource: Resource, namespace: str = "", labels: str = ""
    ) -> Sequence[JSON]:
        try:
            listed = await self._client.list(resource, namespace, labels=labels)
        except NotFound:
            # The cluster does not have the kind.
            return []
        except ClientError as error:
            where = f" in namespace {namespace}" if namespace else ""
            self._unread.append(f"{resource.group_resource}{where}: {error}")
            return []
        return [body.to_dict() for body in listed.items]

    async def _text(self, name: str, path: str, params: Mapping[str, str] | None = None) -> None:
        try:
            text = await self._client.request("GET", path, params=params, accept="*/*")
        except ClientError as error:
            self._unread.append(f"{name}: {error}")
        else:
            self._texts[name] = text.decode(errors="replace")


def _some(body: Mapping[str, Any], *names: str) -> JSON:
    return {name: body[name] for name in names if name in body}


def _meta(body: JSON) -> JSON:
    # Neither annotations nor managedFields: kubectl writes all of an object into the former.
    return _some(
        body["metadata"],
        *("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp"),
        "finalizers",
    )


def _conditions(body: JSON) -> JSON:
    """Return how an object goes; specs may hold what is confidential."""
    status = body.get("status") or {}
    return {
        "metadata": _meta(body),
        "status": _some(status, "observedGeneration", "conditions", "phase"),
    }


def _deployment(body: JSON) -> JSON:
    counted = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "conditions")
    return {
        "metadata": _meta(body),
        "images": _images(body["spec"]["template"]["spec"]),
        "replicas": body["spec"].get("replicas"),
        "status": _some(body.get("status") or {}, *counted),
    }


def _pod(body: JSON) -> JSON:
    """Return how a Pod goes, without environment, flags and annotations."""
    status = body.get("status") or {}
    states = ("name", "ready", "restartCount", "state", "lastState", "imageID")
    return {
        "metadata": _meta(body),
        "images": _images(body["spec"]),
        "node": body["spec"].get("nodeName"),
        "status": {
            **_some(status, "phase", "reason", "message", "conditions"),
            "containers": [_some(own, *states) for own in status.get("containerStatuses", ())],
        },
    }


def _images(spec: JSON) -> JSON:
    return {own["name"]: own.get("image", "") for own in spec["containers"]}


def _event(body: JSON) -> JSON:
    regarding = _some(body.get("involvedObject", {}), "apiVersion", "kind", "namespace", "name")
    fields = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime")
    return {"involvedObject": regarding, **_some(body, *fields, "reportingComponent")}
