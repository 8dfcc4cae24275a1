"""All that the three ``explain`` commands print, in text and JSON, held against recorded texts.

``FAIRLEAD_RECORD=1`` writes the texts anew, of which git then shows the differences.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.whole.test_elsewhere import ACCESS, TEMPLATE
from tests.support.binding import DATABASES, Team, bind
from tests.support.binding import prepare as prepare_bindings
from tests.support.binding import running as binding
from tests.support.kbindbound import OBJECT_VERBS, BoundWorld, namespace, widgets
from tests.support.kbindbound import widget as widget_of
from tests.support.kbindworld import NAMESPACE as KBIND_NAMESPACE
from tests.support.kbindworld import RULES, KbindWorld, connection, exported_crd, silent_server
from tests.support.konnector import WIDGETS, World, invited, secret, widget
from tests.support.pgworld import World as Place
from tests.support.pgworld import grant
from tests.support.postgres import access, prepare, running, server_profile
from tests.support.waiting import condition, when

from fairlead import process
from fairlead.api.kbind import CONNECTIONS
from fairlead.api.kbind.names import (
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_DELETION_POLICY,
    CONSUMER_CLUSTER_UID,
    DELETION_POLICY_ORPHAN,
    LABEL_EXPORTED,
)
from fairlead.api.kbind.names import GROUP as KBIND_GROUP
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTTEMPLATES,
    GroupResource,
    provider_crds,
)
from fairlead.api.kubebind import CLUSTERBINDINGS as PROVIDED
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Key
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.crds import crds as postgres_crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.reasons import verdict
from fairlead.api.resource import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.app import install_crds
from fairlead.cli import main
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.konnector.commands.overview import fetch
from fairlead.konnector.rights import binding_roles
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import install_crds as install_any_crds
from fairlead_sandbox import Sandbox


RECORDS = Path(__file__).parent / "explained"
SINCE = "2026-01-01T00:00:00Z"
_CHANGING = (
    (re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"port \d+"), "port PORT"),
    (re.compile(r"PostgreSQL \d+[\w.]*"), "PostgreSQL VERSION"),
    (re.compile(r"\d+ s ago|\d+ seconds? ago"), "AGE ago"),
    (re.compile(r"kube-bind-[a-z0-9]{5,}"), "kube-bind-ID"),
    (re.compile(r"kubeconfig-[0-9a-f]{10}"), "kubeconfig-ID"),
    (re.compile(r"approve=[0-9a-f]{32}"), "approve=DIGEST"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), "UID"),
)
"""Texts that differ from run to run."""


class Recorder:
    """Runs commands against a cluster, and compares what they print with a recorded text.

    Args:
        kubeconfig: the cluster's and the user's.
        name: the record's.
        names: random names of this run, each with the name that the record has.
    """

    def __init__(self, kubeconfig: Path, name: str, names: dict[str, str]) -> None:
        self._kubeconfig = kubeconfig
        self._path = RECORDS / f"{name}.txt"
        self._names = names
        self.text = ""

    async def run(self, *command: str, kubeconfig: Path | None = None) -> None:
        """Run a command for people, and with --json unless it names a link of a list."""
        is_link = any("/" in word for word in command)
        for arguments in (command,) if is_link else (command, (*command, "--json")):
            where = ("--kubeconfig", str(kubeconfig or self._kubeconfig))
            answer = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, *where])
            assert isinstance(answer.exception, SystemExit | None), answer.exception
            who = "" if kubeconfig is None else "reader: "
            self.text += f"{who}$ fairlead {' '.join(arguments)}  # {answer.exit_code}\n"
            told = answer.stdout
            if told.startswith("{"):
                body = json.loads(told)
                told = json.dumps({**body, "notes": sorted(body["notes"])}) + "\n"
            # Bindings are read at once, and the order of notes is of no account.
            remarks = sorted(answer.stderr.splitlines(keepends=True))
            self.text += f"{told}{''.join(remarks)}\n"

    def compare(self) -> None:
        """Compare everything that was printed."""
        text = self.text
        for name, plain in self._names.items():
            text = text.replace(name, plain)
        for pattern, plain in _CHANGING:
            text = pattern.sub(plain, text)
        if os.environ.get("FAIRLEAD_RECORD"):
            RECORDS.mkdir(exist_ok=True)
            self._path.write_text(text, encoding="utf-8")
        assert text == self._path.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands run in a thread, which takes no signals, and each edit be of a moment ago."""
    monkeypatch.setattr(verdict, "PATIENCE", timedelta(hours=1))
    monkeypatch.setattr(process, "run", lambda work: asyncio.run(work(asyncio.Event())))


@pytest.fixture
async def plane() -> AsyncIterator[Sandbox]:
    async with Sandbox(name="explained") as plane:
        yield plane


@pytest.fixture
async def admin(plane: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(plane.kubeconfig())) as admin:
        yield admin


def written(kubeconfig: bytes, folder: Path, name: str = "admin") -> Path:
    path = folder / f"{name}.kubeconfig"
    path.write_bytes(kubeconfig)
    return path


async def reader(plane: Sandbox, admin: Client, folder: Path) -> Path:
    """A kubeconfig of who may read bindings, workloads and accesses of shop, and no Secret."""
    names: JSON = {"metadata": {"name": "reader", "namespace": "shop"}}
    rules = [
        {"apiGroups": [group], "resources": ["*"], "verbs": ["get", "list"]}
        for group in (
            *(SERVICEBINDINGS.group, COREOS_SERVICEBINDINGS.group),
            *("apps", DATABASES.group, POSTGRESACCESSES.group),
        )
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "shop"}
    for resource, more in (
        (SERVICEACCOUNTS, {}),
        (ROLES, {"rules": rules}),
        (ROLEBINDINGS, {"roleRef": role, "subjects": [subject]}),
    ):
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        await admin.create(resource, {**typed, **names, **more})
    config = yaml.safe_load(plane.kubeconfig())
    token = (await as_service_account(admin, "shop", "reader")).token
    config["users"][0]["user"] = {"token": token}
    return written(yaml.safe_dump(config).encode(), folder, "reader")


def conditions(*told: tuple[str, str, str, str], **status: object) -> JSON:
    every = [
        {"type": type_, "status": state, "reason": reason, "message": message}
        | {"lastTransitionTime": SINCE}
        for type_, state, reason, message in told
    ]
    return {"status": {"conditions": every, **status}}


async def test_bindings_and_statuses(plane: Sandbox, admin: Client, tmp_path: Path) -> None:
    recorder = Recorder(written(plane.kubeconfig(), tmp_path), "statuses", {})
    await recorder.run("binding", "explain")
    await recorder.run("explain", "deployment/web")
    await prepare(admin)
    await prepare_bindings(admin)
    team = Team(admin, "shop")
    await team.start()
    await recorder.run("explain", "-n", "shop")
    await recorder.run("binding", "explain", "-n", "shop")
    login = {"type": "cG9zdGdyZXNxbA==", "host": "ZGI=", "password": "czNjcmV0"}
    await team.create(SECRETS, "login", data=login)
    for name in ("web", "idle", "stripped", "refused", "waits", "recordless"):
        await team.deployment(name)

    def to(workload: str, **service: str) -> JSON:
        kind = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload}
        return bind(workload=kind, **({"service": service} if service else {}))

    def database(name: str) -> dict[str, str]:
        return {"apiVersion": DATABASES.api_version, "kind": "Database", "name": name}

    for name, status in {
        "sick": conditions(
            ("Ready", "False", "Down", "the disk is full"), binding={"name": "login"}
        ),
        "unnamed": {},
        "secretless": {"status": {"binding": {"name": "none"}}},
        "starting": conditions(("Ready", "False", "Reconciling", "starts")),
    }.items():
        await team.create(DATABASES, name)
        await team.patch(DATABASES, name, status, subresource="status")
    application = {"group": "apps", "version": "v1", "resource": "deployments", "name": "web"}
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "login"}
    selector = {"matchLabels": {"app": "nothing"}}
    everything = {"apiVersion": "apps/v1", "kind": "Deployment", "selector": selector}
    async with binding(admin):
        for name, spec, state in (
            ("a-ready", to("web"), "True"),
            ("b-stripped", to("stripped"), "True"),
            ("c-refused", to("refused"), "True"),
            ("d-absent", to("idle", **database("none")), "False"),
            ("e-unnamed", to("idle", **database("unnamed")), "False"),
            ("f-secretless", to("idle", **database("secretless")), "False"),
            ("g-starting", to("waits", **database("starting")), "False"),
            ("h-selects", bind(workload=everything), "False"),
            ("i-workloadless", to("none"), "False"),
            ("j-unserved", to("idle", apiVersion="gone.org/v1", kind="C", name="c"), "False"),
            ("k-sick", to("idle", **database("sick")), "True"),
            ("l-changed", to("idle"), "True"),
            ("p-recordless", to("recordless"), "True"),
        ):
            await team.create(SERVICEBINDINGS, name, spec=spec)
            await team.when(SERVICEBINDINGS, name, _is(state))
        spec = {"name": "a-ready", "application": application, "services": [service]}
        await team.create(COREOS_SERVICEBINDINGS, "m-second", spec=spec)
        await team.says(
            "m-second", "InjectionReady", "False", "Error", resource=COREOS_SERVICEBINDINGS
        )
    bare: JSON = {"spec": {"template": {"spec": {"volumes": None}}}}
    await team.patch(DEPLOYMENTS, "stripped", bare)
    await team.patch(DEPLOYMENTS, "recordless", {"metadata": {"annotations": None}})
    failed = conditions(
        ("ReplicaFailure", "True", "FailedCreate", "a policy refuses Secrets"),
        observedGeneration=2,
    )
    await team.patch(DEPLOYMENTS, "refused", failed, subresource="status")
    await team.patch(SERVICEBINDINGS, "l-changed", {"spec": {"name": "other"}})
    await team.create(SERVICEBINDINGS, "n-unseen", spec=to("waits"))
    await team.deployment("several-0", {"app": "several"})
    for number in range(1, 5):
        await team.deployment(f"several-{number}", {"app": "several"})
    several = {**everything, "selector": {"matchLabels": {"app": "several"}}}
    await team.create(SERVICEBINDINGS, "o-several", spec=bind(workload=several))
    for command in (("explain",), ("binding", "explain")):
        await recorder.run(*command, "-n", "shop")
        for target in (
            "deployment/web",
            "deploy/idle",
            "deployments.apps/stripped",
            "sbr/d-absent",
        ):
            await recorder.run(*command, target, "-n", "shop")
        for target in ("deployment/none", "servicebinding/none", "statefulset/none", "web"):
            await recorder.run(*command, target, "-n", "shop")
        await recorder.run(
            *command, "servicebinding.binding.operators.coreos.com/m-second", "-n", "shop"
        )
    for target in (
        *("secret/login", "secret/none", "deployments.v1beta9.apps/web", "deploymnt/web"),
        "deployment/wep",
    ):
        await recorder.run("explain", target, "-n", "shop")
    await team.create(CONFIGMAPS, "shop")
    for name in ("shop", "none"):
        await recorder.run("explain", f"configmap/{name}", "-n", "shop")
    await recorder.run("explain", "deployment/web", "-n", "elsewhere")
    limited = await reader(plane, admin, tmp_path)
    await recorder.run("explain", "-n", "shop", kubeconfig=limited)
    await recorder.run("binding", "explain", "-n", "shop", kubeconfig=limited)
    recorder.compare()


def _is(state: str) -> Callable[[JSON], bool]:
    return lambda body: condition(body, "Ready").get("status") == state


async def test_statuses_of_accesses(plane: Sandbox, admin: Client, tmp_path: Path) -> None:
    recorder = Recorder(written(plane.kubeconfig(), tmp_path), "accesses", {})
    await recorder.run("postgres", "explain", "none")
    await prepare(admin)
    await prepare_bindings(admin)
    team = Team(admin, "shop")
    await team.start()
    await admin.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    )
    ready = ("Ready", "True", "Ready", "logs in")
    told: dict[str, tuple[JSON, JSON]] = {
        "ready": ({}, conditions(ready, observedGeneration=1, username="ready")),
        "unseen": ({}, {}),
        "old": ({"suspend": True}, conditions(ready, observedGeneration=0)),
        "suspended": (
            {"suspend": True},
            conditions(("Ready", "False", "Suspended", "waits"), observedGeneration=1),
        ),
        "pending": (
            {"approval": "Manual"},
            conditions(("Ready", "False", "ApprovalPending", "waits"), observedGeneration=1),
        ),
    }
    for reason in (
        *("OwnsObjects", "SecretConflict", "UsernameConflict", "InsufficientPrivilege", "Locked"),
        *("PolicyDenied", "DatabaseNotFound", "ConnectionFailed", "UserExcluded", "Odd"),
        *("LoginEnded", "ServerNotFound", "AdoptionRefused", "InvalidSpec"),
    ):
        status = conditions(("Ready", "False", reason, f"of {reason}"), observedGeneration=1)
        told[reason.lower()] = ({}, status)
    for name, (spec, status) in told.items():
        await admin.create(POSTGRESACCESSES, access(name, "shop", "main", **spec))
        await team.patch(POSTGRESACCESSES, name, status, subresource="status")
    # Their server is not there, so that the rest is told by the status.
    going = {**access("going", "shop", "main")}
    going["metadata"]["finalizers"] = ["example.org/held"]
    await admin.create(POSTGRESACCESSES, going)
    status = conditions(
        ("Ready", "False", "OwnsObjects", "of it"),
        observedGeneration=1,
        deletion={"blockers": [{"database": "app", "objects": ["table t"]}]},
    )
    await team.patch(POSTGRESACCESSES, "going", status, subresource="status")
    await team.delete(POSTGRESACCESSES, "going")
    await team.create(SECRETS, "secretconflict-login")
    service = {"apiVersion": POSTGRESACCESSES.api_version, "kind": "PostgresAccess"}
    for name in ("ready", "secretconflict", "policydenied"):
        spec = bind(service={**service, "name": name})
        await team.create(SERVICEBINDINGS, name, spec=spec)
    limited = await reader(plane, admin, tmp_path)
    for name in (*told, "going", "none"):
        await recorder.run("explain", f"postgresaccess/{name}", "-n", "shop")
        await recorder.run("postgres", "explain", name, "-n", "shop")
    for kubeconfig in (None, limited):
        for name in ("ready", "secretconflict", "ownsobjects"):
            await recorder.run(
                "explain", f"postgresaccess/{name}", "-n", "shop", kubeconfig=kubeconfig
            )
            await recorder.run("postgres", "explain", name, "-n", "shop", kubeconfig=kubeconfig)
    await recorder.run("explain", "secret/secretconflict-login", "-n", "shop")
    await recorder.run("explain", "-n", "shop")
    await recorder.run("binding", "explain", "-n", "shop")
    await recorder.run("explain", "-n", "shop", kubeconfig=limited)
    await recorder.run("binding", "explain", "-n", "shop", kubeconfig=limited)
    recorder.compare()


async def test_accesses_of_a_server(
    plane: Sandbox, admin: Client, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    await prepare(admin)
    await prepare_bindings(admin)
    place = Place(admin, postgres, is_real=False)
    await place.arrive()
    await place.create_database()
    recorder = Recorder(
        written(plane.kubeconfig(), tmp_path),
        "server",
        {place.id: "ID", str(postgres.port): "PORT"},
    )
    team = Team(admin, place.namespace)
    grants = [grant(place.database, "CONNECT")]
    profiles: dict[str, JSON] = {"down": {"port": 1}, "closed": {"allowedDatabases": ["other"]}}
    for name, fields in profiles.items():
        profile = server_profile(
            name, postgres, credentialsSecretRef={"name": place.server}, **fields
        )
        await admin.create(POSTGRESSERVERS, profile)

    def at(server: str) -> JSON:
        return {"connection": {"serverRef": {"name": server}}, "grants": grants}

    ended = {"validUntil": "2020-01-01T00:00:00Z"}
    worlds: dict[str, tuple[JSON, str]] = {
        "fine": ({"grants": grants}, "True"),
        "drifted": ({"grants": grants}, "True"),
        "owner": ({"grants": grants}, "True"),
        "rival": ({"grants": grants, "username": place.name("fine")}, "UsernameConflict"),
        "wrong": ({"grants": [grant("nowhere", "CONNECT")]}, "DatabaseNotFound"),
        "ended": ({"attributes": ended, "grants": grants}, "LoginEnded"),
        "secretless": (
            {"connection": {"existingSecret": "missing"}, "grants": grants},
            "ConnectionSecretMissing",
        ),
        "nameless": (at("nowhere"), "ServerNotFound"),
        "denied": (at("closed"), "PolicyDenied"),
        "unanswered": (at("down"), "ConnectionFailed"),
        "stranger": ({"grants": grants}, "SecretConflict"),
        "approved": ({"grants": grants, "approval": "Manual"}, "ApprovalPending"),
        "refused": ({"attributes": {"config": {"work_mem": "a lot"}}}, "AttributeInvalid"),
    }
    await team.create(SECRETS, f"{place.name('stranger')}-login")
    service = {"apiVersion": POSTGRESACCESSES.api_version, "kind": "PostgresAccess"}
    async with running(admin, PostgresOptions(pending_interval=0.5)), binding(admin):
        for suffix, (spec, word) in worlds.items():
            name = await place.create(suffix, **spec)
            await place.wait(name, _tells(word))
        await team.deployment("web")
        for suffix in ("fine", "rival"):
            spec = bind(service={**service, "name": place.name(suffix)}, name=suffix)
            await team.create(SERVICEBINDINGS, suffix, spec=spec)
        await team.says("fine", "Ready", "True", "ApplicationsBound")
        await team.when(SERVICEBINDINGS, "rival", _is("False"))
        owner = place.name("owner")
        await place.fetch("CREATE TABLE kept (id int)")
        await place.fetch(f'ALTER TABLE kept OWNER TO "{owner}"')
        await place.delete(owner)
        await place.wait(owner, _tells("OwnsObjects"))
    await place.fetch(
        f'REVOKE CONNECT ON DATABASE {place.database} FROM "{place.name("drifted")}"'
    )
    for suffix in worlds:
        name, there = place.name(suffix), ("-n", place.namespace)
        await recorder.run("postgres", "explain", name, *there)
        await recorder.run("explain", f"postgresaccess/{name}", *there)
        await recorder.run("explain", f"secret/{name}-login", *there)
    for command in (("explain",), ("binding", "explain")):
        await recorder.run(*command, "-n", place.namespace)
        await recorder.run(*command, "deployment/web", "-n", place.namespace)
    password = (await place.secret(place.name("fine")))["password"]
    assert password not in recorder.text
    recorder.compare()


def _tells(word: str) -> Callable[[JSON], bool]:
    def tells(body: JSON) -> bool:
        ready = condition(body, "Ready")
        return word in {ready.get("status"), ready.get("reason")} or word in str(ready)

    return tells


async def test_objects_that_a_provider_brings(world: World, tmp_path: Path) -> None:
    await prepare(world.provider)
    await world.provider.create(APISERVICEEXPORTTEMPLATES, TEMPLATE)
    konnector = await world.konnector()
    link = await invited(world.consumer, world.provider, name="postgres", template="postgres")
    await link.bind()
    widgets = await world.bound()
    consumer = world.consumer
    await install_crds(consumer)
    await consumer.create(WIDGETS, widget("blue"))
    await consumer.create(POSTGRESACCESSES, ACCESS)
    namespace, other = await link.provider_namespace(), await widgets.provider_namespace()
    await when(world.provider, WIDGETS, "blue", other, until=bool)
    await when(world.provider, POSTGRESACCESSES, "db", namespace, until=bool)
    recorder = Recorder(
        written(world.consumer_plane.kubeconfig(), tmp_path),
        "provider",
        {namespace: "NAMESPACE", other: "OTHER"},
    )
    for resource, name in ((WIDGETS, "blue"), (POSTGRESACCESSES, "db")):
        await _binds(consumer, resource, name)
    await when(consumer, WIDGETS, "blue", "default", until=_is_crossed)

    async def all_targets() -> None:
        for target in (
            *("apiservicebinding/widgets", "apiservicebinding/none", "widget/blue", "widget/none"),
            *("widgets.v1.example.org/blue", "widgets.v9.example.org/blue", "secret/blue-origin"),
            *("postgresaccess/db", "secret/login", "servicebinding/blue", "servicebinding/db"),
        ):
            await recorder.run("explain", target, "-n", "default")
        await recorder.run("binding", "explain", "-n", "default")
        await recorder.run("postgres", "explain", "db", "-n", "default")

    failing = conditions(
        ("Ready", "False", "Locked", "another session waits"), observedGeneration=1
    )
    await consumer.create(SECRETS, secret("blue-origin", "default"))
    await all_targets()
    await world.provider.merge_patch(
        POSTGRESACCESSES, "db", namespace, failing, subresource="status"
    )
    await when(consumer, POSTGRESACCESSES, "db", "default", until=lambda b: "Locked" in str(b))
    await all_targets()
    await konnector.stop()
    await consumer.create(WIDGETS, widget("green"))
    await recorder.run("explain", "widget/green", "-n", "default")
    bound = await consumer.get(APISERVICEBINDINGS, "widgets")
    reference = bound.to_dict()["spec"]["kubeconfigSecretRef"]
    await consumer.delete(SECRETS, reference["name"], reference["namespace"])
    await all_targets()
    recorder.compare()


def _is_crossed(body: JSON) -> bool:
    return bool(body["metadata"].get("finalizers"))


async def _binds(
    consumer: Client, resource: Resource, name: str, namespace: str = "default"
) -> None:
    service = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name}
    body: JSON = {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": SERVICEBINDINGS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": bind(service=service),
    }
    await consumer.create(SERVICEBINDINGS, body)


async def test_objects_that_kbind_v2_brings(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = KbindWorld(stack)
    await world.start()
    bound, here, there = BoundWorld(world), world.consumer, world.provider.admin
    api, gadget_api = await world.provider.offer(), await world.provider.offer("gadgets")
    thing_api, own_api = await world.provider.offer("things"), await world.provider.offer("owns")
    name = POSTGRESACCESSES.group_resource
    (offered,) = (crd for crd in postgres_crds() if crd["metadata"]["name"] == name)
    offered["metadata"].setdefault("labels", {})[LABEL_EXPORTED] = "true"
    await install_any_crds(there, [offered])
    await prepare_bindings(here)
    await install_crds(here)
    await install_any_crds(here, [*provider_crds(), exported_crd(world.provider.group, "owns")])
    widgets_, gadgets = widgets(world.provider), widgets(world.provider, "gadgets")
    await bound.accept("widgets", "gadgets", "owns")
    await create_all(here, access_roles())
    rules = [
        rule(POSTGRESACCESSES.group, [POSTGRESACCESSES.plural], OBJECT_VERBS),
        rule("", ["namespaces"], ("create",)),
        rule(world.provider.group, ["widgets", "gadgets", "things", "owns"], OBJECT_VERBS),
    ]
    konnector = await world.konnector()
    await world.connect(await world.provider.kubeconfig("team", rules=(*RULES, *rules)), "acme")
    await here.create(CONNECTIONS, connection("astray", "shop"))
    kinds = [api, POSTGRESACCESSES.group_resource]
    await bound.bind("all", *kinds, connection="acme")
    for space in ("shop", "away"):
        await namespace(here, space)
    await bound.bind("own", gadget_api, connection="acme", namespace="shop")
    await bound.bind("rightless", thing_api, connection="acme")
    await bound.bind("taken", own_api, connection="acme")
    await bound.bind("cluster", "none.example.org", connection="nowhere")
    await bound.bind("astray", "nothing.example.org", connection="astray")
    await bound.says("Ready", "True")
    await bound.says("Ready", "True", key=Key("shop", "own"))
    await bound.says("Ready", "False", "Forbidden", key=Key("", "rightless"))
    await bound.says("Ready", "False", "ForeignCustomResourceDefinition", key=Key("", "taken"))
    theirs = {
        "apiVersion": PROVIDED.api_version,
        "kind": PROVIDED.kind,
        "metadata": {"name": "cluster", "namespace": "shop"},
        "spec": {"kubeconfigSecretRef": {"name": "k", "key": "k"}, "providerPrettyName": "us"},
    }
    await here.create(PROVIDED, theirs)
    await namespace(there, "shop")
    await there.create(widgets_, widget_of(widgets_, "foreign", "shop"))
    marks = {CONSUMER_CLUSTER_UID: "x", ANNOTATION_CONSUMER_OBJECT_UID: "y"}
    stolen = widget_of(widgets_, "stolen", "shop", metadata={"annotations": marks})
    await there.create(widgets_, stolen)
    orphan = {"annotations": {ANNOTATION_DELETION_POLICY: DELETION_POLICY_ORPHAN}}
    for name in ("blue", "foreign", "stolen", "held"):
        await here.create(widgets_, widget_of(widgets_, name, "shop"))
    await here.create(widgets_, widget_of(widgets_, "orphan", "shop", metadata=orphan))
    for space in ("shop", "away"):
        await here.create(gadgets, widget_of(gadgets, "clock", space))
    access_ = {**ACCESS, "metadata": {"name": "db", "namespace": "shop"}}
    await here.create(POSTGRESACCESSES, access_)
    failing = conditions(
        ("Ready", "False", "Locked", "another session waits"), observedGeneration=1
    )
    await when(there, POSTGRESACCESSES, "db", "shop", until=bool)
    await there.merge_patch(POSTGRESACCESSES, "db", "shop", failing, subresource="status")
    await when(here, POSTGRESACCESSES, "db", "shop", until=lambda body: "Locked" in str(body))
    await _binds(here, POSTGRESACCESSES, "db", "shop")
    for name in ("foreign", "stolen"):
        await when(here, widgets_, name, "shop", until=lambda body: "conflict" in str(body))
    await bound.says("Conflicts", "True", text="2 objects are")
    for name in ("blue", "orphan", "held"):
        await when(there, widgets_, name, "shop", until=bool)
    await when(there, gadgets, "clock", "shop", until=bool)
    keep = {"metadata": {"finalizers": ["example.org/slow"]}}
    await there.merge_patch(widgets_, "held", "shop", keep)
    await here.delete(widgets_, "held", "shop")
    await when(
        there, widgets_, "held", "shop", until=lambda b: b["metadata"].get("deletionTimestamp")
    )
    recorder = Recorder(
        written(world.consumer_plane.sandbox.kubeconfig(), tmp_path),
        "kbind",
        {world.provider.group: "example.org"},
    )

    async def objects() -> None:
        for target in (
            *("widget/blue", "widget/foreign", "widget/stolen", "widget/orphan", "widget/held"),
            *("gadget/clock", "postgresaccess/db", "servicebinding/db"),
        ):
            await recorder.run("explain", target, "-n", "shop")

    await objects()
    for target in (
        *("clusterbinding/all", "binding/shop/own", "clusterbinding/rightless"),
        *("clusterbinding/taken", "clusterbinding/astray", "connection/acme"),
        *("connection/astray", "connection/none", "binding/shop/none", "clusterbinding/cluster"),
        *("clusterbinding.core.kbind.io/cluster", "clusterbinding.kube-bind.io/cluster"),
    ):
        await recorder.run("explain", target, "-n", "shop")
    await recorder.run("explain", "binding/own", "-n", "shop", "--json")
    await recorder.run("postgres", "explain", "db", "-n", "shop")
    await recorder.run("explain", "gadget/clock", "-n", "away")
    await recorder.run("explain", "-n", "shop")
    limited = await kbind_reader(world, tmp_path)
    for target in ("widget/blue", "clusterbinding/all", "binding/shop/own"):
        await recorder.run("explain", target, "-n", "shop", kubeconfig=limited)
    tenant = await kbind_tenant(world, tmp_path)
    for target in ("gadget/clock", "widget/blue", "binding/shop/own"):
        await recorder.run("explain", target, "-n", "shop", kubeconfig=tenant)
    await konnector.stop()
    await here.create(widgets_, widget_of(widgets_, "late", "shop"))
    await recorder.run("explain", "widget/late", "-n", "shop")
    other = await world.new_provider("other")
    await world.rotate(await other.kubeconfig("team"), "acme")
    await recorder.run("explain", "widget/blue", "-n", "shop")
    monkeypatch.setattr(fetch, "PATIENCE", 1.0)
    async with silent_server() as address:
        await world.rotate(await other.kubeconfig("mute", address=address), "acme")
        await recorder.run("explain", "widget/blue", "-n", "shop")
    # The konnector that held it is not there any more.
    await here.merge_patch(SECRETS, "acme", KBIND_NAMESPACE, {"metadata": {"finalizers": []}})
    await here.delete(SECRETS, "acme", KBIND_NAMESPACE)
    await recorder.run("explain", "clusterbinding/all", "-n", "shop")
    recorder.compare()


def access_roles() -> list[JSON]:
    """The konnector's rights on PostgresAccesses in the consumer's cluster."""
    resource = GroupResource(group=POSTGRESACCESSES.group, resource=POSTGRESACCESSES.plural)
    return binding_roles("accesses", [resource], [])


KBIND_PLURALS = ["connections", "clusterbindings", "bindings"]


async def kbind_reader(world: KbindWorld, folder: Path) -> Path:
    """A kubeconfig of who may read bound objects and the kinds of kbind v2, and no Secret."""
    return await kbind_account(world, folder, "reader", KBIND_PLURALS, "Cluster")


async def kbind_tenant(world: KbindWorld, folder: Path) -> Path:
    """A kubeconfig of who may read bound objects and Bindings of shop alone."""
    return await kbind_account(world, folder, "tenant", ["bindings"], "")


async def kbind_account(
    world: KbindWorld, folder: Path, name: str, plurals: list[str], scope: str
) -> Path:
    here, placed = world.consumer, {"name": name, "namespace": "shop"}
    rules = [
        rule(KBIND_GROUP, plurals, ("get", "list")),
        rule(world.provider.group, ["*"], ("get", "list")),
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": f"{scope}Role", "name": name}
    subject = {"kind": "ServiceAccount", **placed}
    rbac = {"apiVersion": f"{group}/v1", "metadata": {"name": name} if scope else placed}
    await create_all(
        here,
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": placed},
            {**rbac, "kind": f"{scope}Role", "rules": rules},
            {**rbac, "kind": f"{scope}RoleBinding", "roleRef": role, "subjects": [subject]},
        ],
    )
    config = yaml.safe_load(world.consumer_plane.sandbox.kubeconfig())
    config["users"][0]["user"] = {"token": (await as_service_account(here, "shop", name)).token}
    return written(yaml.safe_dump(config).encode(), folder, name)
