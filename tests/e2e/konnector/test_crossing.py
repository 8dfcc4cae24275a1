"""CRDs in the manner of other projects', from the provider to the consumer, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from tests.support.crossing import (
    FOLDER,
    NONE,
    YES,
    Crossing,
    Sample,
    crossing,
    large_sample,
    samples,
)
from tests.support.konnector import Link
from tests.support.realplane import RealPlane, minor_version
from tests.support.tiers import OLD, today
from tests.support.waiting import SECONDS, gone, when

from fairlead.api.kubebind import ANNOTATION_API_APPROVED as APPROVED
from fairlead.api.kubebind import (
    ANNOTATION_BOUND_BY,
    APISERVICEEXPORTREQUESTS,
    BOUNDSCHEMAS,
    provider_crds,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.konnector.commands.bind import BindError
from fairlead.konnector.commands.unbind import unbind
from fairlead.runtime import install_crds


SCHEMAS = BOUNDSCHEMAS.group_resource
CERTIFICATES = "certificates.crossing.example.org"
LARGE = 200_000
"""Characters of a large schema."""
CRDS = {
    sample.name.partition(".")[0]: sample for sample in (*samples(FOLDER), large_sample(LARGE))
}
CONVERTED = "pipelines"
"""The kind that is converted by a Service, and cannot be bound."""


pytestmark = today("CRDs of today have members that it does not know")


@pytest.fixture(scope="module")
def planes(plane_thread: Any, real_programs: None) -> Iterator[tuple[RealPlane, RealPlane]]:
    """The provider's server and the consumer's, both of this module alone."""
    assert not 0 < minor_version() < OLD
    planes = RealPlane(), RealPlane()
    try:
        for plane in planes:
            plane_thread.run(plane.start())
        yield planes
    finally:
        for plane in planes:
            plane_thread.run(plane.stop())


@pytest.fixture
async def way(planes: tuple[RealPlane, RealPlane]) -> AsyncIterator[Crossing]:
    async with crossing(*planes, patience=SECONDS) as way:
        yield way


@pytest.mark.parametrize(
    "sample",
    [pytest.param(sample, id=name) for name, sample in CRDS.items() if name != CONVERTED],
)
async def test_a_crd_crosses_whole(way: Crossing, sample: Sample) -> None:
    passage = await way.measure(sample)
    status = YES if sample.has_status else NONE
    assert (passage.steps, passage.lost) == ([YES, YES, status, YES, YES], [])
    told = [line for line in passage.lines if line.startswith(f"the status of {sample.name}")]
    assert len(told) == (0 if sample.has_status else 1)


async def succeeded(way: Crossing, link: Link) -> None:
    """Wait until the provider has accepted a request that it had refused."""
    await when(
        way.provider,
        APISERVICEEXPORTREQUESTS,
        link.name,
        link.cluster_namespace,
        until=lambda body: body["status"].get("phase") == "Succeeded",
    )


def former_crd() -> JSON:
    """Return the BoundSchema CRD that kube-bind and former versions have."""
    (crd,) = [one for one in provider_crds() if one["metadata"]["name"] == SCHEMAS]
    former: JSON = msgspec.json.decode(msgspec.json.encode(crd))
    (version,) = former["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    members = spec["properties"]["versions"]["items"]["properties"]
    members["name"] = {"type": "string", "pattern": "^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$"}
    columns = members["additionalPrinterColumns"]
    columns["x-kubernetes-list-type"] = "map"
    columns["x-kubernetes-list-map-keys"] = ["name"]
    return former


async def columns(way: Crossing, link: Link) -> list[str]:
    """Return the names of the columns in the BoundSchema of certificates."""
    found = await way.provider.get(BOUNDSCHEMAS, CERTIFICATES, link.cluster_namespace)
    (version,) = found.to_dict()["spec"]["versions"]
    return [column["name"] for column in version["additionalPrinterColumns"]]


async def test_a_provider_with_a_former_boundschema_crd_refuses_at_once_until_it_is_upgraded(
    way: Crossing,
) -> None:
    await install_crds(way.provider, [former_crd()])
    certificates = await way.offer(CRDS["certificates"].crd)
    await certificates.bind()
    known = await columns(way, certificates)
    pools, addons = [await way.offer(CRDS[name].crd) for name in ("machinepools", "addons")]
    for link in (pools, addons):
        with pytest.raises(BindError, match="Upgrade the provider") as refused:
            await link.bind()
        assert "waited" not in str(refused.value)

    await install_crds(way.provider, provider_crds())
    # Its managedFields name the columns by the keys of the former list.
    patch = {"spec": {"versions": CRDS["certificates"].crd["spec"]["versions"]}}
    (version,) = patch["spec"]["versions"]
    twice = [*version["additionalPrinterColumns"], version["additionalPrinterColumns"][0]]
    patch = {"spec": {"versions": [{**version, "additionalPrinterColumns": twice}]}}
    await way.provider.merge_patch(CUSTOMRESOURCEDEFINITIONS, CERTIFICATES, "", patch)
    await when(
        way.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        CERTIFICATES,
        until=lambda body: body["spec"]["versions"][0]["additionalPrinterColumns"] == twice,
    )
    assert await columns(way, certificates) == [*known, known[0]]
    for link in (pools, addons):
        # The provider tries again by itself.
        await succeeded(way, link)
        await link.bind()
    for link in (certificates, pools, addons):
        await unbind(way.consumer, link.name, timeout=SECONDS)


async def test_an_approval_crosses_and_follows(way: Crossing) -> None:
    link = await way.offer(CRDS["routes"].crd)
    await link.bind()
    name = CRDS["routes"].name

    async def approved(approval: str) -> JSON:
        return await when(
            way.consumer,
            CUSTOMRESOURCEDEFINITIONS,
            name,
            until=lambda body: body["metadata"]["annotations"].get(APPROVED) == approval,
        )

    crd = await approved(CRDS["routes"].crd["metadata"]["annotations"][APPROVED])
    # No other annotation of the provider's CRD crosses.
    assert crd["metadata"]["annotations"].keys() == {APPROVED, ANNOTATION_BOUND_BY}
    newer = "https://github.com/kubernetes-sigs/example/pull/2"
    patch = {"metadata": {"annotations": {APPROVED: newer}}}
    await way.provider.merge_patch(CUSTOMRESOURCEDEFINITIONS, name, "", patch)
    await approved(newer)
    await unbind(way.consumer, link.name, timeout=SECONDS)


def with_names(crd: JSON, plural: str, **names: Any) -> JSON:
    """Return a CRD of another plural in the same group."""
    known = {"plural": plural, "singular": plural[:-1], "kind": plural.title()}
    return {
        **crd,
        "metadata": {"name": f"{plural}.{crd['spec']['group']}"},
        "spec": {**crd["spec"], "names": {**known, **names}},
    }


async def removed(way: Crossing, crd: JSON) -> None:
    await way.consumer.delete(CUSTOMRESOURCEDEFINITIONS, crd["metadata"]["name"])
    await gone(way.consumer, CUSTOMRESOURCEDEFINITIONS, crd["metadata"]["name"])


@pytest.mark.parametrize(
    ("names", "clash"),
    [
        pytest.param({"shortNames": ["cert"]}, "short name cert", id="short name"),
        pytest.param(
            {"kind": "Certificate", "listKind": "PaperList"}, "kind Certificate", id="kind"
        ),
        pytest.param({"listKind": "CertificateList"}, "list kind CertificateList", id="list kind"),
        pytest.param({"shortNames": ["certificate"]}, "singular certificate", id="singular"),
    ],
)
async def test_a_name_that_another_crd_has_is_told_and_heals_by_itself(
    way: Crossing, names: JSON, clash: str
) -> None:
    crd = CRDS["certificates"].crd
    other = with_names(crd, "papers", **names)
    await install_crds(way.consumer, [other])
    link = await way.offer(crd)
    binding = asyncio.create_task(link.bind())
    told = await link.condition("NamesTaken", bool)
    taken = f"{clash} is taken by CustomResourceDefinition papers.crossing.example.org"
    assert told["reason"] == "NamesNotAccepted"
    assert f"{CERTIFICATES} is not established: {taken}. To free the name" in told["message"]
    await link.condition("SchemaInSync", lambda one: one.get("reason") == "NamesNotAccepted")
    await removed(way, other)
    await binding
    await link.condition("NamesTaken", lambda one: not one)
    await unbind(way.consumer, link.name, timeout=SECONDS)


async def test_a_short_name_that_comes_later_and_is_taken_leaves_the_binding_ready(
    way: Crossing,
) -> None:
    crd = CRDS["certificates"].crd
    other = with_names(crd, "papers", shortNames=["pp"])
    await install_crds(way.consumer, [other])
    link = await way.offer(crd)
    await link.bind()
    patch = {"spec": {"names": {"shortNames": ["pp"]}}}
    await way.provider.merge_patch(CUSTOMRESOURCEDEFINITIONS, CERTIFICATES, "", patch)
    told = await link.condition("NamesTaken", bool)
    assert f"{CERTIFICATES} is served without this name: short name pp" in told["message"]
    await link.says(Ready="True", SchemaInSync="True")
    patch = {"spec": {"names": {"shortNames": []}}}
    await way.consumer.merge_patch(CUSTOMRESOURCEDEFINITIONS, other["metadata"]["name"], "", patch)
    await link.condition("NamesTaken", lambda one: not one)
    await removed(way, other)
    await unbind(way.consumer, link.name, timeout=SECONDS)


async def test_a_kind_that_is_converted_by_a_service_is_refused_at_once_until_it_is_not(
    way: Crossing,
) -> None:
    sample = CRDS[CONVERTED]
    link = await way.offer(sample.crd)
    with pytest.raises(BindError, match="is Service tekton/webhook of the provider") as refused:
        await link.bind()
    assert "waited" not in str(refused.value)
    assert "or serve one version with strategy None" in str(refused.value)
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await way.provider.merge_patch(CUSTOMRESOURCEDEFINITIONS, sample.name, "", patch)
    await succeeded(way, link)
    await link.bind()
    await unbind(way.consumer, link.name, timeout=SECONDS)
