"""Measures whether CRDs of other projects cross whole, for ``hack/crds FOLDER`` and for tests.

The folder has CRDs in YAML, and for each an object of its kind, in any files. All of them take the
way of a person: exported, bound, an object made and changed here, its status written there,
unbound. Both clusters are real servers. Nothing of the folder is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import logging
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import structlog
import yaml
from tests.support.konnector import Konnector, Link, invited, konnector
from tests.support.kubectl import Shell, built_kubectl
from tests.support.provider import prepare, running
from tests.support.realplane import RealPlane, missing_assets

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, LABEL_EXPORTED
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import (
    Client,
    ClientError,
    Conflict,
    Invalid,
    NotFound,
    parse_kubeconfig,
)
from fairlead.client.lookups import wait_for
from fairlead.demo.identity import create_all
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.commands.unbind import unbind
from fairlead.provider.manifests import export_roles
from fairlead.runtime import install_crds


YES = "yes"
NONE = "none"
"""Outcome of the status of a kind without the status subresource."""
_FINE = frozenset({YES, NONE, ""})
PATIENCE = 60.0
"""Seconds that each step of a measurement may take by default."""
FOLDER = Path(__file__).parent / "crds"
"""CRDs in the manner of other projects', written for the tests."""
NAMESPACE = "default"
_ENVELOPE = frozenset({"apiVersion", "kind", "metadata", "status"})


class Sample(msgspec.Struct, frozen=True):
    """A CRD, and an object of its kind as a person writes it; ``status`` is the provider's."""

    crd: JSON
    body: JSON
    status: JSON

    @property
    def name(self) -> str:
        """The name of the CRD."""
        name: str = self.crd["metadata"]["name"]
        return name

    @property
    def resource(self) -> Resource:
        """The resource of the object."""
        version = self.body["apiVersion"].rpartition("/")[2]
        return crd_spec(object_from_dict(self.crd)).resource(version)

    @property
    def has_status(self) -> bool:
        """Whether the version of the object has a status subresource."""
        return any(
            "status" in (version.get("subresources") or {})
            for version in self.crd["spec"]["versions"]
            if version["name"] == self.resource.version
        )


class Passage(msgspec.Struct):
    """The outcome for one CRD: of each step ``yes``, "" where it was not tried, or the reason.

    ``lost`` are paths of the CRD, the object and its status that differ on the two sides.
    """

    name: str
    bound: str = ""
    crossed: str = ""
    status: str = ""
    updated: str = ""
    unbound: str = ""
    seconds: float = 0.0
    lost: list[str] = []
    lines: list[str] = []
    """What ``fairlead bind`` said."""

    def __str__(self) -> str:
        columns = [step if step in _FINE else "no" for step in self.steps]
        shown = " ".join(f"{column or '-':7}" for column in columns)
        reasons = [step for step in self.steps if step not in _FINE]
        if self.lost:
            reasons.append(f"lost: {', '.join(self.lost)}")
        return f"{self.name:58} {shown} {self.seconds:7.1f}  {'; '.join(reasons) or 'whole'}"

    @property
    def steps(self) -> list[str]:
        """The outcomes of the steps in their order."""
        return [self.bound, self.crossed, self.status, self.updated, self.unbound]

    @property
    def is_whole(self) -> bool:
        """Whether no step failed, and nothing was lost."""
        return not self.lost and all(step in _FINE for step in self.steps)


HEADER = f"{'CRD':58} bound   crossed status  updated unbound seconds"


def samples(folder: Path) -> list[Sample]:
    """Return the CRDs of a folder, each with its first object; those without one are left out."""
    files = sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")])
    # Its loader in C, for there are CRDs of a million characters.
    loaded = (yaml.load_all(file.read_text(), yaml.CSafeLoader) for file in files)
    documents = [body for bodies in loaded for body in bodies if body]
    documents = [msgspec.json.decode(msgspec.json.encode(body)) for body in documents]
    crds = [body for body in documents if body.get("kind") == "CustomResourceDefinition"]
    found: list[Sample] = []
    for crd in crds:
        kind, group = crd["spec"]["names"]["kind"], crd["spec"]["group"]
        of_kind = (
            body
            for body in documents
            if body.get("kind") == kind and body["apiVersion"].rpartition("/")[0] == group
        )
        if (body := next(of_kind, None)) is not None:
            status = body.get("status") or {}
            members = {key: value for key, value in body.items() if key != "status"}
            found.append(Sample(crd, members, status))
    return found


def large_sample(characters: int) -> Sample:
    """Return a CRD whose schema has so many characters, as those have that embed Pods."""
    fields = {f"field{n}": {"type": "string", "description": "A" * 80} for n in range(10)}
    section = {"type": "object", "properties": fields}
    sections = {f"section{n}": section for n in range(characters // len(str(section)))}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    members = {"spec": {"type": "object", "properties": sections}, "status": status}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": members}},
    }
    group, names = "crossing.example.org", {"plural": "monoliths", "singular": "monolith"}
    kinds = {"kind": "Monolith", "listKind": "MonolithList"}
    crd = {
        "apiVersion": CUSTOMRESOURCEDEFINITIONS.api_version,
        "kind": CUSTOMRESOURCEDEFINITIONS.kind,
        "metadata": {"name": f"monoliths.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {**names, **kinds},
            "versions": [version],
        },
    }
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Monolith",
        "metadata": {"name": "shop"},
        "spec": {"section1": {"field1": "a"}},
    }
    return Sample(crd, body, {"phase": "Ready"})


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif one != other:
        yield path


def content(body: JSON) -> JSON:
    """Return the members of an object that a person writes."""
    return {key: value for key, value in body.items() if key not in _ENVELOPE}


def changed(body: JSON) -> Iterator[JSON]:
    """Yield bodies of which one value each is another, as long as there is one."""
    for path, value in _leaves(content(body)):
        match value:
            case bool():
                other: Any = not value
            case int() | float():
                other = value + 1
            case str():
                other = f"{value}x"
            case _:
                continue
        result = copy.deepcopy(body)
        at: Any = result
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = other
        yield result


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in items:
            yield from _leaves(member, (*path, key))
    else:
        yield path, value


class Crossing:
    """A provider and a consumer at work, and the measurements on the way between them."""

    def __init__(
        self,
        provider: Client,
        consumer: Client,
        working: Konnector,
        shells: tuple[Shell, Shell],
        patience: float,
    ) -> None:
        self.provider = provider
        self.consumer = consumer
        self.konnector = working
        self._shells = shells
        self._patience = patience
        # The provider keeps the exports of a consumer that has unbound.
        self._identity = str(uuid.uuid4())

    async def offer(self, crd: JSON) -> Link:
        """Export the kind of a CRD, and invite the consumer to it."""
        name, spec = crd["metadata"]["name"], crd["spec"]
        labels = {**crd["metadata"].get("labels", {}), LABEL_EXPORTED: "true"}
        metadata = {"name": name, "labels": labels}
        if annotations := crd["metadata"].get("annotations"):
            metadata["annotations"] = annotations
        await create_all(self.provider, export_roles([name], claims=[]))
        await install_crds(self.provider, [{**crd, "metadata": metadata, "status": {}}])
        resource = {"group": spec["group"], "resource": spec["names"]["plural"]}
        template = {
            "apiVersion": APISERVICEEXPORTTEMPLATES.api_version,
            "kind": APISERVICEEXPORTTEMPLATES.kind,
            "metadata": {"name": name},
            "spec": {
                "scope": spec["scope"],
                "resources": [{**resource, "versions": []}],
                "schemaUpdatePolicy": "Always",
            },
        }
        await create_all(self.provider, [template])
        return await invited(
            self.consumer,
            self.provider,
            name=name.replace(".", "-"),
            template=name,
            identity=self._identity,
        )

    async def measure(self, sample: Sample) -> Passage:
        """Take a CRD and its object the whole way."""
        passage = Passage(sample.name, lost=[], lines=[])
        begun = time.monotonic()
        try:
            await self._measure(sample, passage)
        finally:
            passage.seconds = time.monotonic() - begun
            with contextlib.suppress(NotFound):
                await self.provider.delete(CUSTOMRESOURCEDEFINITIONS, sample.name)
        return passage

    async def _measure(self, sample: Sample, passage: Passage) -> None:
        try:
            link = await self.offer(sample.crd)
            await bind(
                self.consumer,
                link.response,
                timeout=self._patience,
                progress=passage.lines.append,
            )
        except ClientError as error:
            passage.bound = str(error)
            return
        passage.bound = YES
        passage.lost += await self._lost_of_crd(sample.name)
        for step in (self._cross, self._bring_status, self._print, self._update):
            if await step(sample, passage):
                break
        try:
            await unbind(self.consumer, link.name, timeout=self._patience)
            left = await self.provider.list(sample.resource)
            passage.unbound = f"copies stay: {len(left.items)}" if left.items else YES
        except ClientError as error:
            passage.unbound = str(error)

    async def _lost_of_crd(self, name: str) -> list[str]:
        there = (await self.provider.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()["spec"]
        here = (await self.consumer.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()["spec"]
        return [f"CRD{path}" for path in differences(there, here)]

    async def _cross(self, sample: Sample, passage: Passage) -> bool:
        metadata = {"name": sample.body["metadata"]["name"]}
        if sample.resource.namespaced:
            metadata["namespace"] = NAMESPACE
        try:
            made = await self.consumer.create(
                sample.resource, {**sample.body, "metadata": metadata}
            )
        except ClientError as error:
            passage.crossed = str(error)
            return True
        passage.crossed = await self._same(sample, made)
        return passage.crossed != YES

    async def _same(self, sample: Sample, body: Object) -> str:
        """Wait until the only copy has the content of the object; return how it differs."""
        wanted, lost = content(body.to_dict()), ["there is no copy"]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while lost:
                    copies = (await self.provider.list(sample.resource)).items
                    if copies:
                        lost = [*differences(wanted, content(copies[0].to_dict()))]
                    if lost:
                        await asyncio.sleep(0.05)
        return f"differs: {', '.join(lost)}" if lost else YES

    async def _bring_status(self, sample: Sample, passage: Passage) -> bool:
        if not sample.has_status:
            passage.status = NONE
            return False
        if not sample.status:
            return False
        (copied,) = (await self.provider.list(sample.resource)).items
        body = copied.to_dict() | {"status": sample.status}
        try:
            written = await self.provider.update(sample.resource, body, subresource="status")
        except ClientError as error:
            passage.status = str(error)
            return False
        wanted = written.to_dict().get("status")

        def missing(found: Object | None) -> str:
            body = found.to_dict() if found is not None else {}
            return ", ".join(differences(wanted, body.get("status"), "status"))

        meta = sample.body["metadata"]
        namespace = NAMESPACE if sample.resource.namespaced else ""
        try:
            await wait_for(
                self.consumer,
                sample.resource,
                meta["name"],
                namespace,
                until=missing,
                timeout=self._patience,
            )
        except ClientError as error:
            passage.status = str(error)
            return False
        passage.status = YES
        return False

    async def _print(self, sample: Sample, passage: Passage) -> bool:
        """Compare the columns of ``kubectl get``; names of copies may have a prefix."""
        resource = sample.resource
        command = f"get {resource.plural}.{resource.version}.{resource.group} -A -o wide"
        there, here = [await asyncio.to_thread(shell.run, command) for shell in self._shells]
        name = sample.body["metadata"]["name"]
        tables = [
            [line.split(f"{name} ")[-1] for line in (result.out or result.err).splitlines()]
            for result in (there, here)
        ]
        if tables[0] != tables[1]:
            passage.lost.append(f"kubectl {command}: {tables[0]} became {tables[1]}")
        return False

    async def _update(self, sample: Sample, passage: Passage) -> bool:
        namespace = NAMESPACE if sample.resource.namespaced else ""
        name = sample.body["metadata"]["name"]
        while True:
            found = await self.consumer.get(sample.resource, name, namespace)
            for body in changed(found.to_dict()):
                try:
                    written = await self.consumer.update(sample.resource, body)
                except Invalid:
                    continue
                except Conflict:
                    # The konnector has written meanwhile.
                    break
                except ClientError as error:
                    passage.updated = str(error)
                    return False
                passage.updated = await self._same(sample, written)
                return False
            else:
                return False


@contextlib.asynccontextmanager
async def crossing(
    there: RealPlane, here: RealPlane, *, patience: float = PATIENCE
) -> AsyncIterator[Crossing]:
    """Have a provider and a konnector at work, with the rights of their manifests."""
    kubeconfigs = [plane.admin_kubeconfig() for plane in (there, here)]
    async with contextlib.AsyncExitStack() as stack:
        provider, consumer = [
            await stack.enter_async_context(Client(parse_kubeconfig(kubeconfig)))
            for kubeconfig in kubeconfigs
        ]
        folders = [Path(stack.enter_context(TemporaryDirectory())) for _ in kubeconfigs]
        shells = [
            Shell(built_kubectl(), kubeconfig, folder, NAMESPACE)
            for kubeconfig, folder in zip(kubeconfigs, folders, strict=True)
        ]
        await prepare(provider, exports=[], claims=[])
        await stack.enter_async_context(running(provider))
        working = await stack.enter_async_context(konnector(consumer))
        yield Crossing(provider, consumer, working, (shells[0], shells[1]), patience)


async def _run(folder: Path, patience: float) -> int:
    known = samples(folder)
    if not known:
        print(f"crds: no CRD with an object in {folder}", file=sys.stderr)
        return 2
    print(HEADER)
    whole = True
    async with (
        RealPlane() as there,
        RealPlane() as here,
        crossing(there, here, patience=patience) as measured,
    ):
        for sample in known:
            passage = await measured.measure(sample)
            print(passage, flush=True)
            whole &= passage.is_whole
    return 0 if whole else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the CRDs of a folder; 0 if all cross whole, 1 if some do not, 2 without any."""
    parser = argparse.ArgumentParser(prog="hack/crds", description=__doc__)
    parser.add_argument("folder", type=Path, help="CRDs and objects, in YAML")
    parser.add_argument("--seconds", type=float, default=PATIENCE, help="limit of each step")
    given = parser.parse_args(arguments)
    # What the programs log would come between the lines.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if reason := missing_assets():
        print(f"crds: {reason}", file=sys.stderr)
        return 2
    return asyncio.run(_run(given.folder, given.seconds))


if __name__ == "__main__":
    sys.exit(main())
