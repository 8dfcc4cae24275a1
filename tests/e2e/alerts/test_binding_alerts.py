"""Alerts about bindings, webhooks and what all programs share, each where just that is broken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import msgspec
import pytest
from tests.support.alerts import Scraped, assert_well, at_least, at_work, firing, names
from tests.support.binding import Team, bind, prepare
from tests.support.bindinghooks import serving_webhooks
from tests.support.waiting import SECONDS

from fairlead.api.resource import CLUSTERROLES, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.timestamps import moment
from fairlead.binding import app
from fairlead.binding.admission.names import KEY_SECRET, NAME, SECRET
from fairlead.binding.manifests import manifests
from fairlead.binding.options import DEFAULT_NAMESPACE, AdmissionOptions, BindingOptions
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.programs import consumer_programs
from fairlead.runtime import BackoffPolicy, LeaderElection
from fairlead.runtime.admission import certificates
from fairlead_sandbox import Sandbox


pytestmark = pytest.mark.extended

PROGRAM = consumer_programs()[1]
HOOKED = AdmissionOptions(
    address="127.0.0.1:0",
    hosts=("127.0.0.1",),
    namespace=DEFAULT_NAMESPACE,
    projected=(("deployments", "apps"),),
)


class Bound(Scraped):
    """Controllers of bindings at work, and a team whose binding is projected."""

    plane: Sandbox
    team: Team


@pytest.fixture
async def plane() -> AsyncIterator[Sandbox]:
    async with Sandbox(name="consumer") as made:
        yield made
        made.faults.clear()


@pytest.fixture
async def admin(plane: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(plane.kubeconfig())) as made:
        await prepare(made)
        yield made


@pytest.fixture
async def bound(plane: Sandbox, admin: Client) -> AsyncIterator[Bound]:
    team = await Team.arrive(admin)
    async with at_work(admin, PROGRAM) as scraped:
        found = Bound(scraped.job, scraped._url)
        found.plane, found.team = plane, team
        await team.deployment("web")
        await team.create(SERVICEBINDINGS, "db", spec=bind())
        await assert_well(
            await found.tells("fairlead_bindings", lambda value: value == 1, outcome="bound")
        )
        yield found
        plane.faults.clear()


async def test_a_binding_whose_service_is_not_there_is_told_of(bound: Bound) -> None:
    spec = bind(service={"apiVersion": "v1", "kind": "Secret", "name": "nowhere"})
    await bound.team.create(SERVICEBINDINGS, "lost", spec=spec)
    scrape = await bound.tells("fairlead_bindings", lambda value: value == 1, outcome="failed")
    (alert,) = await firing((30, scrape), (30, await bound.scrape()))
    assert alert.name == "FairleadBindingsNotProjected"
    await bound.team.admin.delete(SERVICEBINDINGS, "lost", bound.team.namespace)
    await assert_well(
        await bound.tells("fairlead_bindings", lambda value: value == 0, outcome="failed")
    )


async def test_a_watch_that_breaks_off_again_and_again_is_told_of(
    bound: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackoffPolicy, "delay", lambda *_: 0.05)
    before = await bound.scrape()
    bound.plane.faults.fail("watch", "servicebindings", 500, times=-1)
    bound.plane.faults.drop_watches("servicebindings")
    name = "fairlead_watch_restarts_total"
    during = await bound.tells(name, lambda value: value > 1, reason="failed")
    after = await bound.tells(name, lambda value: value > 20, reason="failed")
    found = await firing((30, before), (5, during), (10, after))
    assert names(found) == {"FairleadWatchRestarts"}


async def test_a_queue_that_nobody_works_off_is_told_of(bound: Bound) -> None:
    bound.plane.faults.delay(3600, "patch", "servicebindings")
    scrapes = [(10, await bound.scrape())]
    for part in range(3):
        for number in range(60):
            await bound.team.create(SERVICEBINDINGS, f"q{part}-{number}", spec=bind())
        waiting = await bound.tells(
            "workqueue_depth", at_least(31 + 55 * part), controller="servicebinding"
        )
        scrapes.append((15, waiting))
    assert names(await firing(*scrapes)) == {"FairleadQueueGrowing"}


async def test_a_loop_that_comes_late_to_everything_is_told_of(bound: Bound) -> None:
    loop, over = asyncio.get_running_loop(), [False]

    def hog() -> None:
        time.sleep(0.7)
        if not over[0]:
            # Others have their turn, and it is late.
            loop.call_later(0.1, hog)

    hog()
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                scrape = await bound.scrape(calm=False)
                if max(v for k, v in scrape.items() if "event_loop_lag" in k) > 0.55:
                    break
    finally:
        over[0] = True
    found = await firing((10, scrape), (10, scrape))
    assert names(found) == {"FairleadEventLoopLag"}


def candidate(client: Client) -> LeaderElection:
    return LeaderElection(
        client,
        DEFAULT_NAMESPACE,
        NAME,
        lease_duration=1.5,
        renew_deadline=1.0,
        retry_period=0.2,
    )


async def test_that_nobody_leads_is_told_of_until_somebody_does(
    plane: Sandbox, admin: Client
) -> None:
    plane.faults.fail("create", "leases", 500, times=-1)
    async with at_work(admin, PROGRAM, election=candidate) as waiting:
        name = "leader_election_master_status"
        scrape = await waiting.tells(name, lambda value: value == 0)
        (alert,) = await firing((30, scrape), (30, await waiting.scrape()))
        assert alert.name == "FairleadNoLeader"
        assert f"No replica holds the Lease {NAME}" in alert.annotations
        plane.faults.clear()
        await assert_well(await waiting.tells(name, lambda value: value == 1))


async def test_a_webhook_that_cannot_answer_is_told_of(plane: Sandbox, admin: Client) -> None:
    documents = manifests(image="fairlead", webhooks=True, projected=["deployments.apps"])
    async with serving_webhooks(admin, documents, projected=HOOKED.projected) as served:
        asked = Scraped(NAME, lambda: served.manager.metrics_url)
        workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "late"}
        await served.team.create(SERVICEBINDINGS, "db", spec=bind(workload=workload))
        await served.team.says("db", "CollectionReady", "True", "DataCollected")
        before = await asked.scrape()
        await assert_well(before)
        # What a binding needs cannot be read.
        plane.faults.fail("get", "secrets", 500, times=-1)
        await served.team.deployment("late")
        after = await asked.tells(
            "fairlead_webhook_reviews_total", lambda value: value >= 1, verdict="failed"
        )
        (alert,) = await firing((30, before), (10, after))
        plane.faults.clear()
    assert alert.name == "FairleadWebhookFailing"
    assert "projector" in alert.annotations


async def test_a_certificate_that_is_not_renewed_is_told_of(admin: Client) -> None:
    long_ago = moment() - timedelta(days=80)
    held = certificates.renewed({}, HOOKED.hosts, long_ago, published=True)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": DEFAULT_NAMESPACE},
        "type": "kubernetes.io/tls",
        "data": certificates.encoded(held),
    }
    # It has lost the label by which it is this program's.
    await admin.create(SECRETS, secret)
    documents = manifests(image="fairlead", webhooks=True, projected=["deployments.apps"])
    for document in documents:
        if document["kind"] == "ClusterRole":
            # Those of an installation without webhooks are there.
            await admin.apply(CLUSTERROLES, document)
    options = BindingOptions(requester_key=(DEFAULT_NAMESPACE, KEY_SECRET))
    program = msgspec.structs.replace(
        PROGRAM,
        manifests=documents,
        build=partial(app.build, options=options, webhooks=HOOKED),
    )
    name = "fairlead_certificate_remaining_seconds"
    async with at_work(admin, program) as scraped:
        scrape = await scraped.tells(name, lambda value: value < 11 * 86400)
        (alert,) = await firing((60, scrape), (60, await scraped.scrape()))
        assert alert.name == "FairleadCertificateExpiring"
        assert "The certificate for webhooks expires in 9d" in alert.annotations
        labels = {"metadata": {"labels": {"app.kubernetes.io/name": NAME}}}
        await admin.merge_patch(SECRETS, SECRET, DEFAULT_NAMESPACE, labels)
        await assert_well(await scraped.tells(name, lambda value: value > 80 * 86400))
