"""Who may do what: RBAC, tokens, impersonation and the reviews, on both control planes."""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.contract.support import WIDGETS, configmap, eventually, gone
from tests.support.planes import ControlPlane
from tests.support.tiers import today
from tests.support.webhooks import WebhookServer, rule

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    NAMESPACES,
    PODS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SELFSUBJECTACCESSREVIEWS,
    SERVICEACCOUNTS,
    SUBJECTACCESSREVIEWS,
    Resource,
)
from fairlead.client import (
    ApiError,
    BadRequest,
    Client,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
    parse_kubeconfig,
)
from fairlead.client.config import Impersonation


RBAC = "rbac.authorization.k8s.io"
LOCALREVIEWS = Resource(
    "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"
)
RULESREVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False
)
TOKENREVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ISSUER = "https://kubernetes.default.svc"


class Robot:
    """A ServiceAccount without rights, and a client that is it."""

    def __init__(self, admin: Client, client: Client, namespace: str, name: str) -> None:
        self.admin = admin
        self.client = client
        self.namespace = namespace
        self.name = name
        self.user = f"system:serviceaccount:{namespace}:{name}"

    @property
    def subject(self) -> JSON:
        return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}

    async def grant(self, *rules: JSON, kind: str = "Role", namespace: str = "") -> str:
        """Bind the robot to a new role; returns once that is in force."""
        namespace = namespace or self.namespace
        name = f"r{uuid.uuid4().hex[:8]}"
        if kind == "Role":
            await self.admin.create(ROLES, role(name, *rules), namespace)
        else:
            await self.admin.create(CLUSTERROLES, role(name, *rules))
        await self.bind(name, kind, namespace)
        return name

    async def bind(self, name: str, kind: str, namespace: str) -> None:
        body = binding(f"b-{name}", kind, name, self.subject)
        await self.admin.create(ROLEBINDINGS, body, namespace)

    async def may(self, verb: str, resource: str, **more: str) -> bool:
        attributes = {"verb": verb, "resource": resource, "namespace": self.namespace} | more
        answer = await self.client.create(
            SELFSUBJECTACCESSREVIEWS, {"spec": {"resourceAttributes": attributes}}
        )
        return bool(answer.to_dict()["status"]["allowed"])


def role(name: str, *rules: JSON) -> JSON:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, kind: str, target: str, *subjects: JSON) -> JSON:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": target},
        "subjects": list(subjects),
    }


def allow(verbs: str, resources: str, group: str = "", **more: list[str]) -> JSON:
    rule = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return rule | more


async def token(client: Client, name: str, namespace: str, **spec: Any) -> str:
    answer = await client.create(
        SERVICEACCOUNTS, {"spec": spec}, namespace, name=name, subresource="token"
    )
    return str(answer.to_dict()["status"]["token"])


def speaking_as(admin: Client, bearer: str) -> Client:
    config = replace(admin.config, token=bearer, client_certificate=b"", client_key=b"")
    return Client(config)


@pytest.fixture
async def robot(client: Client, namespace: str) -> AsyncIterator[Robot]:
    await client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, namespace)
    async with speaking_as(client, await token(client, "robot", namespace)) as made:
        yield Robot(client, made, namespace, "robot")


@contextmanager
def refused(text: str) -> Iterator[None]:
    with pytest.raises(Forbidden) as caught:
        yield
    assert caught.value.message == text


async def until(check: Callable[[], Awaitable[Any]], error: type[ApiError]) -> None:
    """Wait until the request is answered with this error."""

    async def failed() -> bool:
        try:
            await check()
        except error:
            return True
        return False

    await eventually(failed)


async def test_nothing_is_allowed_at_first(robot: Robot, widgets: None) -> None:
    user, ns = robot.user, robot.namespace
    with refused(
        f'widgets.contract.example.org is forbidden: User "{user}" cannot list resource '
        f'"widgets" in API group "contract.example.org" in the namespace "{ns}"'
    ):
        await robot.client.list(WIDGETS, ns)
    with refused(
        f'secrets is forbidden: User "{user}" cannot list resource "secrets" in API group "" '
        "at the cluster scope"
    ):
        await robot.client.list(SECRETS)
    with refused(
        f'secrets "x" is forbidden: User "{user}" cannot get resource "secrets" in API group "" '
        f'in the namespace "{ns}"'
    ):
        await robot.client.get(SECRETS, "x", ns)
    with refused(
        f'namespaces "{ns}" is forbidden: User "{user}" cannot get resource "namespaces" '
        f'in API group "" in the namespace "{ns}"'
    ):
        await robot.client.get(NAMESPACES, ns)
    with refused(
        f'widgets.contract.example.org "w" is forbidden: User "{user}" cannot patch resource '
        f'"widgets/status" in API group "contract.example.org" in the namespace "{ns}"'
    ):
        await robot.client.merge_patch(WIDGETS, "w", ns, {}, subresource="status")
    with refused(f'forbidden: User "{user}" cannot get path "/metrics"'):
        await robot.client.request("GET", "/metrics")


async def test_details_of_a_refusal(robot: Robot) -> None:
    with pytest.raises(Forbidden) as caught:
        await robot.client.get(ROLES, "x", robot.namespace)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    details = caught.value.status.details
    assert details is not None
    assert (details.name, details.group, details.kind) == ("x", RBAC, "roles")


async def test_a_role_grants_and_its_end_takes_away(robot: Robot) -> None:
    name = await robot.grant(allow("get list create", "configmaps"))
    await eventually(lambda: robot.may("create", "configmaps"))
    await robot.client.create(CONFIGMAPS, configmap("a"), robot.namespace)
    with pytest.raises(Forbidden):
        await robot.client.delete(CONFIGMAPS, "a", robot.namespace)
    with pytest.raises(Forbidden):
        await robot.client.list(CONFIGMAPS)
    await robot.admin.delete(ROLEBINDINGS, f"b-{name}", robot.namespace)
    await until(lambda: robot.client.list(CONFIGMAPS, robot.namespace), Forbidden)


async def test_applying_what_is_not_there_needs_the_right_to_create(robot: Robot) -> None:
    await robot.grant(allow("patch", "configmaps"))
    await eventually(lambda: robot.may("patch", "configmaps"))
    body = {**configmap("a"), "apiVersion": "v1", "kind": "ConfigMap"}
    body["metadata"]["namespace"] = robot.namespace
    with pytest.raises(Forbidden, match='configmaps "a" is forbidden'):
        await robot.client.apply(CONFIGMAPS, body)
    await robot.admin.create(CONFIGMAPS, configmap("a"), robot.namespace)
    await robot.client.apply(CONFIGMAPS, body, force=True)


@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "large"])
async def test_that_right_is_needed_too_where_the_object_goes_meanwhile(
    robot: Robot, size: int
) -> None:
    await robot.grant(allow("patch", "configmaps"))
    await eventually(lambda: robot.may("patch", "configmaps"))
    await robot.admin.create(CONFIGMAPS, configmap("a"), robot.namespace)
    body = {**configmap("a"), "data": {"key": "x" * size}}
    body["metadata"]["namespace"] = robot.namespace

    async def deleted(request: JSON) -> JSON:
        with suppress(NotFound):
            await robot.admin.delete(CONFIGMAPS, "a", robot.namespace)
        return {"allowed": True}

    async with WebhookServer() as hooks:
        one = hooks.hook("/one", deleted, rules=[rule("UPDATE")])
        async with hooks.installed(robot.admin, robot.namespace, mutating=[one]):
            with pytest.raises(Forbidden, match='configmaps "a" is forbidden'):
                await robot.client.apply(CONFIGMAPS, body, force=True)
    with pytest.raises(NotFound):
        await robot.admin.get(CONFIGMAPS, "a", robot.namespace)


async def test_a_changed_role_is_in_force(robot: Robot) -> None:
    name = await robot.grant(allow("list", "configmaps"))
    await eventually(lambda: robot.may("list", "configmaps"))
    rules = {"rules": [allow("list", "secrets")]}
    await robot.admin.merge_patch(ROLES, name, robot.namespace, rules)
    await eventually(lambda: robot.may("list", "secrets"))
    await until(lambda: robot.client.list(CONFIGMAPS, robot.namespace), Forbidden)


async def test_a_cluster_role_bound_in_a_namespace_reaches_no_further(robot: Robot) -> None:
    await robot.grant(allow("get list", "configmaps namespaces"), kind="ClusterRole")
    await eventually(lambda: robot.may("list", "configmaps"))
    await robot.client.list(CONFIGMAPS, robot.namespace)
    # A namespace is in itself, as RequestInfo sees it.
    assert (await robot.client.get(NAMESPACES, robot.namespace)).meta.name == robot.namespace
    with pytest.raises(Forbidden):
        await robot.client.get(NAMESPACES, "default")
    with pytest.raises(Forbidden):
        await robot.client.list(CONFIGMAPS, "default")


async def test_resource_names(robot: Robot) -> None:
    for name in ("mine", "other"):
        await robot.admin.create(CONFIGMAPS, configmap(name), robot.namespace)
    await robot.grant(allow("get list create", "configmaps", resourceNames=["mine"]))
    await eventually(lambda: robot.may("get", "configmaps", name="mine"))
    await robot.client.get(CONFIGMAPS, "mine", robot.namespace)
    with pytest.raises(Forbidden):
        await robot.client.get(CONFIGMAPS, "other", robot.namespace)
    with pytest.raises(Forbidden):
        await robot.client.list(CONFIGMAPS, robot.namespace)
    with pytest.raises(Forbidden):
        await robot.client.create(CONFIGMAPS, configmap("new"), robot.namespace)
    found = await robot.client.list(CONFIGMAPS, robot.namespace, fields="metadata.name=mine")
    assert [item.meta.name for item in found.items] == ["mine"]


@pytest.mark.parametrize(
    ("rule", "allowed", "denied"),
    [
        pytest.param(
            allow("get", "pods/log"),
            {"resource": "pods", "subresource": "log"},
            {"resource": "pods"},
            id="subresource",
        ),
        pytest.param(
            allow("get", "*/scale", "apps"),
            {"resource": "deployments", "group": "apps", "subresource": "scale"},
            {"resource": "deployments", "group": "apps"},
            id="subresource of anything",
        ),
        pytest.param(
            allow("*", "*", "apps"),
            {"resource": "deployments", "group": "apps", "subresource": "status"},
            {"resource": "pods"},
            id="wildcards",
        ),
        pytest.param(
            allow("get", "deployments", "*"),
            {"resource": "deployments", "group": "apps"},
            {"resource": "deployments", "group": "apps", "subresource": "scale"},
            id="any group",
        ),
    ],
)
async def test_rules(robot: Robot, rule: JSON, allowed: JSON, denied: JSON) -> None:
    await robot.grant(rule)
    await eventually(lambda: robot.may("get", **allowed))
    assert not await robot.may("get", **denied)


async def test_aggregated_cluster_roles(robot: Robot) -> None:
    key, name = f"test/{uuid.uuid4().hex[:8]}", f"a{uuid.uuid4().hex[:8]}"
    selector = {"matchLabels": {key: "true"}}
    whole = role(name) | {"aggregationRule": {"clusterRoleSelectors": [selector]}}
    await robot.admin.create(CLUSTERROLES, whole)
    await robot.bind(name, "ClusterRole", robot.namespace)
    part = role(f"{name}-part", allow("get", "configmaps"))
    part["metadata"]["labels"] = {key: "true"}
    await robot.admin.create(CLUSTERROLES, part)
    await eventually(lambda: robot.may("get", "configmaps"))
    body = (await robot.admin.get(CLUSTERROLES, name)).to_dict()
    assert body["rules"] == part["rules"]
    await robot.admin.delete(CLUSTERROLES, f"{name}-part")

    async def emptied() -> bool:
        return not (await robot.admin.get(CLUSTERROLES, name)).to_dict().get("rules")

    await eventually(emptied)


async def test_the_usual_roles_are_there(robot: Robot) -> None:
    await robot.bind("edit", "ClusterRole", robot.namespace)
    await eventually(lambda: robot.may("create", "configmaps"))
    assert await robot.may("get", "secrets")
    assert await robot.may("update", "deployments", group="apps")
    assert not await robot.may("create", "roles", group=RBAC)


WRITES_ROLES = allow("create update patch get", "roles rolebindings", RBAC)


@pytest.fixture
async def author(robot: Robot) -> Robot:
    """A robot that may write roles and bindings, and read pods."""
    await robot.grant(WRITES_ROLES, allow("get list", "pods"))
    await eventually(lambda: robot.may("create", "roles", group=RBAC))
    return robot


def groups(robot: Robot) -> str:
    names = ["system:serviceaccounts", f"system:serviceaccounts:{robot.namespace}"]
    return " ".join(f'"{name}"' for name in [*names, "system:authenticated"])


def escalation(kind: str, name: str, robot: Robot, *missing: str) -> str:
    lines = "\n".join(missing)
    return (
        f'{kind}.{RBAC} "{name}" is forbidden: user "{robot.user}" (groups=[{groups(robot)}]) '
        f"is attempting to grant RBAC permissions not currently held:\n{lines}"
    )


async def test_nobody_writes_a_role_beyond_their_own(author: Robot) -> None:
    ns = author.namespace
    await author.client.create(ROLES, role("within", allow("get", "pods")), ns)
    beyond = role("beyond", allow("get delete", "secrets pods"))
    with refused(
        escalation(
            "roles",
            "beyond",
            author,
            '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
        )
    ):
        await author.client.create(ROLES, beyond, ns)
    with pytest.raises(Forbidden, match="permissions not currently held"):
        await author.client.merge_patch(ROLES, "within", ns, {"rules": beyond["rules"]})
    await author.client.merge_patch(ROLES, "within", ns, {"metadata": {"labels": {"a": "b"}}})


async def test_escalate_lifts_that(author: Robot) -> None:
    await author.grant(allow("escalate", "roles", RBAC))
    await eventually(lambda: author.may("escalate", "roles", group=RBAC))
    await author.client.create(ROLES, role("beyond", allow("get", "secrets")), author.namespace)


@today('roles.rbac.authorization.k8s.io "nope" not found')
async def test_nobody_binds_a_role_beyond_their_own(author: Robot) -> None:
    ns = author.namespace
    for name, verb in (("within", "get"), ("beyond", "delete")):
        await author.admin.create(ROLES, role(name, allow(verb, "pods")), ns)

    async def within() -> bool:
        # The real server's informers may not know the role yet.
        try:
            body = binding("b1", "Role", "within", author.subject)
            await author.client.create(ROLEBINDINGS, body, ns)
        except NotFound:
            return False
        return True

    await eventually(within)
    with refused(
        escalation(
            "rolebindings", "b2", author, '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
        )
    ):
        body = binding("b2", "Role", "beyond", author.subject)
        await author.client.create(ROLEBINDINGS, body, ns)
    body = binding("b3", "Role", "nope", author.subject)
    with pytest.raises(NotFound, match=re.escape(f'rolebindings.{RBAC} "nope" not found')):
        await author.client.create(ROLEBINDINGS, body, ns)


async def test_bind_lifts_that(author: Robot) -> None:
    await author.admin.create(ROLES, role("free", allow("get", "secrets")), author.namespace)
    await author.grant(allow("bind", "roles", RBAC, resourceNames=["free"]))
    await eventually(lambda: author.may("bind", "roles", group=RBAC, name="free"))
    body = binding("b", "Role", "free", author.subject)
    await author.client.create(ROLEBINDINGS, body, author.namespace)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            binding("b", "Foo", "x"),
            'roleRef.kind: Unsupported value: "Foo": supported values: "Role", "ClusterRole"',
            id="kind",
        ),
        pytest.param(binding("b", "Role", ""), "roleRef.name: Required value", id="name"),
        pytest.param(
            binding("b", "Role", "x", {"kind": "Foo", "name": "a"}),
            'subjects[0].kind: Unsupported value: "Foo": supported values: '
            '"ServiceAccount", "User", "Group"',
            id="subject",
        ),
        pytest.param(
            binding("b", "Role", "x", {"kind": "User"}),
            "subjects[0].name: Required value",
            id="subject's name",
        ),
    ],
)
async def test_unsound_bindings(client: Client, namespace: str, body: JSON, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(ROLEBINDINGS, body, namespace)
    assert caught.value.message == f'RoleBinding.{RBAC} "b" is invalid: {text}'


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(
            {"apiGroups": [""], "resources": ["pods"]},
            "rules[0].verbs: Required value",
            id="verbs",
            marks=today("verbs must contain at least one value"),
        ),
        pytest.param(
            {"resources": ["pods"], "verbs": ["get"]},
            "rules[0].apiGroups: Required value: "
            "resource rules must supply at least one api group",
            id="groups",
        ),
        pytest.param(
            {"nonResourceURLs": ["/x"], "verbs": ["get"]},
            'rules[0].nonResourceURLs: Invalid value: ["/x"]: '
            "namespaced rules cannot apply to non-resource URLs",
            id="urls",
            marks=today('Invalid value: []string{"/x"}'),
        ),
    ],
)
async def test_unsound_roles(client: Client, namespace: str, rule: JSON, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(ROLES, role("r", rule), namespace)
    assert caught.value.message == f'Role.{RBAC} "r" is invalid: {text}'


@today("cannot change roleRef")
async def test_a_binding_keeps_its_role(client: Client, namespace: str) -> None:
    subject = {"kind": "User", "name": "x"}
    await client.create(ROLEBINDINGS, binding("b", "Role", "a", subject), namespace)
    with pytest.raises(Invalid, match=r"roleRef: .* field is immutable"):
        await client.merge_patch(ROLEBINDINGS, "b", namespace, {"roleRef": {"name": "c"}})


async def test_bad_tokens(client: Client) -> None:
    for text in ("nonsense", "a.b.c"):
        async with speaking_as(client, text) as stranger:
            with pytest.raises(Unauthorized) as caught:
                await stranger.list(CONFIGMAPS, "default")
        assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


async def test_anonymous(client: Client) -> None:
    async with speaking_as(client, "") as nobody:
        with refused(
            'configmaps is forbidden: User "system:anonymous" cannot list resource '
            '"configmaps" in API group "" in the namespace "default"'
        ):
            await nobody.list(CONFIGMAPS, "default")
        assert json.loads(await nobody.request("GET", "/version"))["major"] is not None


async def test_token_request(client: Client, namespace: str) -> None:
    answer = await client.create(
        SERVICEACCOUNTS,
        {"spec": {"expirationSeconds": 600}},
        namespace,
        name="default",
        subresource="token",
    )
    body = answer.to_dict()
    assert body["kind"] == "TokenRequest"
    (audience,) = body["spec"]["audiences"]
    assert audience.startswith(ISSUER)
    claims = json.loads(base64.urlsafe_b64decode(body["status"]["token"].split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{namespace}:default"
    assert claims["exp"] - claims["iat"] == 600
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "default"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"expirationSeconds": 5},
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: '
            "Invalid value: 5: may not specify a duration less than 10 minutes",
            id="short",
        ),
        pytest.param(
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Foo", "name": "x"}},
            "cannot bind token to object of type /v1, Kind=Foo",
            id="kind",
        ),
        pytest.param(
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "x"}},
            'secrets "x" not found',
            id="missing",
        ),
    ],
)
async def test_unsound_token_requests(
    client: Client, namespace: str, spec: JSON, text: str
) -> None:
    with pytest.raises(ApiError) as caught:
        await token(client, "default", namespace, **spec)
    assert caught.value.message == text


async def test_a_token_is_bound_to_pods_of_its_account_alone(
    client: Client, namespace: str
) -> None:
    for name in ("runs", "other"):
        await client.create(SERVICEACCOUNTS, {"metadata": {"name": name}}, namespace)
    # Without a token of its own: kube-apiserver would refuse a Pod whose account has none yet.
    spec = {
        "serviceAccountName": "runs",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i"}],
    }
    await client.create(PODS, {"metadata": {"name": "a"}, "spec": spec}, namespace)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
    assert await token(client, "runs", namespace, boundObjectRef=reference)
    for more in ({}, {"uid": "of another"}):
        with pytest.raises(BadRequest) as caught:
            await token(client, "other", namespace, boundObjectRef={**reference, **more})
        assert caught.value.message == (
            'cannot bind token for serviceaccount "other" to pod running with different '
            "serviceaccount name."
        )


async def test_a_token_for_others_is_none_for_the_server(client: Client, namespace: str) -> None:
    bearer = await token(client, "default", namespace, audiences=["others"])
    async with speaking_as(client, bearer) as robot:
        with pytest.raises(Unauthorized):
            await robot.list(CONFIGMAPS, namespace)


async def review(client: Client, bearer: str, *audiences: str) -> JSON:
    spec: JSON = {"token": bearer}
    if audiences:
        spec["audiences"] = list(audiences)
    answer = await client.create(TOKENREVIEWS, {"spec": spec})
    status: JSON = answer.to_dict()["status"]
    return status


async def test_token_review(client: Client, namespace: str) -> None:
    bearer = await token(client, "default", namespace, audiences=["others"])
    status = await review(client, bearer, "others", "more")
    assert status["authenticated"] is True
    assert status["audiences"] == ["others"]
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    assert status["user"]["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]
    status = await review(client, bearer)
    assert "authenticated" not in status
    assert 'token audiences ["others"] is invalid for the target audiences' in status["error"]
    assert "invalid bearer token" in (await review(client, "x"))["error"]


async def test_a_bound_token_goes_with_its_object(client: Client, namespace: str) -> None:
    await client.create(SECRETS, {"metadata": {"name": "anchor"}}, namespace)
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "anchor"}
    bearer = await token(client, "default", namespace, boundObjectRef=reference)
    # Not used before: the real server remembers a good token for ten seconds.
    await client.delete(SECRETS, "anchor", namespace)

    async def refused_now() -> bool:
        return not (await review(client, bearer)).get("authenticated")

    await eventually(refused_now)


def token_secret(name: str, account: str) -> JSON:
    annotations = {"kubernetes.io/service-account.name": account}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }


async def filled(client: Client, name: str, namespace: str) -> Object:
    found: list[Object] = []

    async def check() -> bool:
        secret = await client.get(SECRETS, name, namespace)
        found.append(secret)
        return bool((secret.to_dict().get("data") or {}).get("token"))

    await eventually(check)
    return found[-1]


async def test_a_token_secret_is_filled_in(robot: Robot) -> None:
    ns = robot.namespace
    await robot.grant(allow("list", "configmaps"))
    await robot.admin.create(SECRETS, token_secret("t", "robot"), ns)
    body = (await filled(robot.admin, "t", ns)).to_dict()
    assert base64.b64decode(body["data"]["namespace"]).decode() == ns
    assert b"BEGIN CERTIFICATE" in base64.b64decode(body["data"]["ca.crt"])
    account = await robot.admin.get(SERVICEACCOUNTS, "robot", ns)
    annotations = body["metadata"]["annotations"]
    assert annotations["kubernetes.io/service-account.uid"] == account.meta.uid
    await eventually(lambda: robot.may("list", "configmaps"))
    bearer = base64.b64decode(body["data"]["token"]).decode()
    async with speaking_as(robot.admin, bearer) as same:
        await same.list(CONFIGMAPS, ns)


async def test_a_token_goes_with_its_secret(client: Client, namespace: str) -> None:
    await client.create(SECRETS, token_secret("t", "default"), namespace)
    body = (await filled(client, "t", namespace)).to_dict()
    bearer = base64.b64decode(body["data"]["token"]).decode()
    await client.delete(SECRETS, "t", namespace)

    async def revoked() -> bool:
        return not (await review(client, bearer)).get("authenticated")

    await eventually(revoked)


async def test_tokens_go_with_their_account(robot: Robot) -> None:
    ns = robot.namespace
    await robot.admin.create(SECRETS, token_secret("t", "robot"), ns)
    await filled(robot.admin, "t", ns)
    await robot.admin.delete(SERVICEACCOUNTS, "robot", ns)
    await gone(robot.admin, "t", ns, SECRETS)
    await until(lambda: robot.client.list(CONFIGMAPS, ns), Unauthorized)


async def test_a_token_secret_of_nobody_goes(client: Client, namespace: str) -> None:
    await client.create(SECRETS, token_secret("t", "nobody"), namespace)
    await gone(client, "t", namespace, SECRETS)


async def test_a_namespace_has_the_ca(client: Client, namespace: str) -> None:
    async def there() -> bool:
        try:
            found = await client.get(CONFIGMAPS, "kube-root-ca.crt", namespace)
        except NotFound:
            return False
        return "BEGIN CERTIFICATE" in found.to_dict()["data"]["ca.crt"]

    await eventually(there)


async def test_impersonation(client: Client, robot: Robot) -> None:
    config = replace(client.config, impersonation=Impersonation(robot.user))
    async with Client(config) as acting:
        with pytest.raises(Forbidden, match=re.escape(f'User "{robot.user}" cannot list')):
            await acting.list(SECRETS, robot.namespace)
    config = replace(client.config, impersonation=Impersonation("x", ("system:masters",)))
    async with Client(config) as acting:
        await acting.list(SECRETS, robot.namespace)


_LEGACY = today("cannot impersonate the user, whatever for")


@pytest.mark.parametrize(
    ("config", "refusal"),
    [
        pytest.param(
            Impersonation("bob"),
            'pods is forbidden: User "{}" cannot impersonate-on:user-info:list resource "pods" in '
            'API group "" in the namespace "a"',
            id="user",
            marks=_LEGACY,
        ),
        pytest.param(
            Impersonation("bob", ("dev",)),
            'pods is forbidden: User "{}" cannot impersonate-on:user-info:list resource "pods" in '
            'API group "" in the namespace "a"',
            id="group",
            marks=_LEGACY,
        ),
        pytest.param(
            Impersonation("system:serviceaccount:a:b"),
            'pods is forbidden: User "{}" cannot impersonate-on:serviceaccount:list resource '
            '"pods" in API group "" in the namespace "a"',
            id="account",
            marks=_LEGACY,
        ),
        pytest.param(
            Impersonation("system:serviceaccount:a:b", ("dev",)),
            'serviceaccounts "b" is forbidden: User "{}" cannot impersonate resource '
            '"serviceaccounts" in API group "" in the namespace "a"',
            id="account-and-group",
        ),
        pytest.param(
            Impersonation("system:node:n"),
            'pods is forbidden: User "{}" cannot impersonate-on:arbitrary-node:list resource '
            '"pods" in API group "" in the namespace "a"',
            id="node",
            marks=_LEGACY,
        ),
    ],
)
async def test_impersonation_must_be_allowed(
    robot: Robot, config: Impersonation, refusal: str
) -> None:
    async with Client(replace(robot.client.config, impersonation=config)) as acting:
        with refused(refusal.format(robot.user)):
            await acting.list(PODS, "a")


@today("no constrained impersonation")
async def test_impersonation_may_be_for_one_verb(robot: Robot) -> None:
    """One right says as whom, the other for which request."""
    name = f"as-bob-{uuid.uuid4().hex[:8]}"
    group = "authentication.k8s.io"
    rule = allow("impersonate:user-info", "users", group, resourceNames=["bob"])
    await robot.admin.create(CLUSTERROLES, role(name, rule))
    await robot.admin.create(
        CLUSTERROLEBINDINGS, binding(name, "ClusterRole", name, robot.subject)
    )
    await robot.grant(allow("impersonate-on:user-info:list", "pods"))
    config = replace(robot.client.config, impersonation=Impersonation("bob"))
    async with Client(config) as acting:

        async def is_bob() -> bool:
            try:
                await acting.list(PODS, robot.namespace)
            except Forbidden as error:
                if "cannot impersonate resource" in error.message:
                    raise
                return error.message.startswith('pods is forbidden: User "bob" cannot list')
            return False

        await eventually(is_bob)
        with pytest.raises(Forbidden, match="cannot impersonate-on:user-info:list"):
            await acting.list(CONFIGMAPS, robot.namespace)


@today("Internal Server Error")
async def test_groups_alone_are_nobody(client: Client) -> None:
    config = replace(client.config, impersonation=Impersonation("", ("dev",)))
    async with Client(config) as acting:
        with pytest.raises(BadRequest) as caught:
            await acting.list(PODS, "a")
    assert caught.value.message == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, '
        "Extra:map[string][]string(nil)} without impersonating a user name"
    )


async def test_subject_access_review(client: Client, robot: Robot) -> None:
    name = await robot.grant(allow("get", "pods"))
    await eventually(lambda: robot.may("get", "pods"))
    attributes = {"verb": "get", "resource": "pods", "namespace": robot.namespace}
    spec = {"user": robot.user, "resourceAttributes": attributes}
    body = {"metadata": {"namespace": robot.namespace}, "spec": spec}
    for resource in (SUBJECTACCESSREVIEWS, LOCALREVIEWS):
        answer = await client.create(
            resource,
            body if resource.namespaced else {"spec": spec},
            robot.namespace if resource.namespaced else "",
        )
        status = answer.to_dict()["status"]
        assert status["allowed"] is True
        assert status["reason"] == (
            f'RBAC: allowed by RoleBinding "b-{name}/{robot.namespace}" of Role "{name}" '
            f'to ServiceAccount "robot/{robot.namespace}"'
        )
    with pytest.raises(Forbidden):
        await robot.client.create(SUBJECTACCESSREVIEWS, {"spec": spec})


@pytest.mark.parametrize(
    ("resources", "names", "allowed"),
    [
        pytest.param("*", [], ["group", "all", "one", "other"], id="everything"),
        pytest.param("widgets", [], ["all", "one", "other"], id="a-resource"),
        pytest.param("widgets", ["one"], ["one"], id="an-object"),
        pytest.param("gadgets", [], [], id="another-resource"),
    ],
)
async def test_review_of_a_group_of_apis(
    client: Client, resources: str, names: list[str], allowed: list[str]
) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.org"
    rule = allow("bind", resources, group, **({"resourceNames": names} if names else {}))
    # By this, it is known that the server has heard of the role.
    heard = allow("bind", "heard", f"heard.{group}")
    await client.create(CLUSTERROLES, role(group, rule, heard))
    people = {"kind": "Group", "apiGroup": RBAC, "name": f"oidc:{group}"}
    await client.create(CLUSTERROLEBINDINGS, binding(group, "ClusterRole", group, people))

    async def may(**attributes: str) -> bool:
        asked = {"verb": "bind", "group": group, **attributes}
        spec = {"user": "oidc:ann", "groups": [f"oidc:{group}"], "resourceAttributes": asked}
        answer = await client.create(SUBJECTACCESSREVIEWS, {"spec": spec})
        return bool(answer.to_dict()["status"]["allowed"])

    try:
        await eventually(lambda: may(group=f"heard.{group}", resource="heard"))
        # The first is what kube-bind's backend asks: no resource, no name.
        asked: dict[str, dict[str, str]] = {
            "group": {},
            "all": {"resource": "widgets"},
            "one": {"resource": "widgets", "name": "one"},
            "other": {"resource": "widgets", "name": "other"},
        }
        assert [name for name, attributes in asked.items() if await may(**attributes)] == allowed
    finally:
        await client.delete(CLUSTERROLEBINDINGS, group)
        await client.delete(CLUSTERROLES, group)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"user": "x"},
            "spec: Invalid value: null: exactly one of nonResourceAttributes or "
            "resourceAttributes must be specified",
            id="nothing",
            marks=today('spec.resourceAttributes: Invalid value: "null"'),
        ),
        pytest.param(
            {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
            id="nobody",
        ),
    ],
)
async def test_unsound_reviews(client: Client, spec: JSON, text: str) -> None:
    with pytest.raises(Invalid, match=re.escape(text)):
        await client.create(SUBJECTACCESSREVIEWS, {"spec": spec})


async def test_rules_review(robot: Robot) -> None:
    await robot.grant(allow("get", "pods"))
    await eventually(lambda: robot.may("get", "pods"))
    answer = await robot.client.create(RULESREVIEWS, {"spec": {"namespace": robot.namespace}})
    status = answer.to_dict()["status"]
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    assert rule in status["resourceRules"]
    assert status["incomplete"] is False
    assert any("/api" in one["nonResourceURLs"] for one in status["nonResourceRules"])


async def test_a_missing_role_is_named(robot: Robot) -> None:
    await robot.bind("nope", "ClusterRole", robot.namespace)

    async def named() -> bool:
        try:
            await robot.client.list(PODS, robot.namespace)
        except Forbidden as error:
            return error.message.endswith(f': RBAC: clusterrole.{RBAC} "nope" not found')
        return False

    await eventually(named)


async def test_paths(client: Client, robot: Robot) -> None:
    name = f"paths-{uuid.uuid4().hex[:8]}"
    rule = {"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}
    await client.create(CLUSTERROLES, role(name, rule))
    body = binding(name, "ClusterRole", name, robot.subject)
    await client.create(CLUSTERROLEBINDINGS, body)

    async def may(path: str) -> bool:
        spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
        answer = await robot.client.create(SELFSUBJECTACCESSREVIEWS, {"spec": spec})
        return bool(answer.to_dict()["status"]["allowed"])

    await eventually(lambda: may("/metrics"))
    assert await may("/logs/a/b")
    assert not await may("/metrics/slis")


async def test_the_administrator_is_known_by_certificate(control_plane: ControlPlane) -> None:
    config = parse_kubeconfig(control_plane.kubeconfig())
    assert config.client_certificate
    assert config.certificate_authority
    assert not config.token
