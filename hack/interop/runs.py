"""How each of the original's programs is brought together with ours, and bound."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable

from hack.interop import checks, door, kbind, programs
from hack.interop.checks import Outcome
from hack.interop.programs import OURS, call
from hack.interop.world import Setting, World, example, write

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    BINDABLERESOURCESREQUESTS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.client.lookups import wait_for


_SECRET = {"name": "kubeconfig-interop", "namespace": "kube-bind", "key": "kubeconfig"}


async def konnector(world: World) -> list[Outcome]:
    """The original's konnector with our provider, bound as ``apiservice -f`` binds."""
    await world.our_provider()
    await world.original_konnector()
    answer = await world.invited()
    (request,) = answer["requests"]
    kubeconfig = base64.b64decode(answer["kubeconfig"])
    async with Client(parse_kubeconfig(kubeconfig)) as invited:
        namespace = {"namespace": answer["providerNamespace"]}
        body = request | {"metadata": request["metadata"] | namespace}
        await invited.create(APISERVICEEXPORTREQUESTS, body)
    await world.consumer.create(NAMESPACES, {"metadata": {"name": _SECRET["namespace"]}})
    secret = {"metadata": {"name": _SECRET["name"]}, "data": {"kubeconfig": answer["kubeconfig"]}}
    await world.consumer.create(SECRETS, secret, _SECRET["namespace"])
    binding = {"apiVersion": API_VERSION, "kind": "APIServiceBinding"}
    spec = {"metadata": request["metadata"], "spec": {"kubeconfigSecretRef": _SECRET}}
    await world.consumer.create(APISERVICEBINDINGS, binding | spec)
    return await checks.run(world.pair("widgets", answer["providerNamespace"]))


async def backend(world: World) -> list[Outcome]:
    """The original's backend with our konnector, invited by a BindableResourcesRequest."""
    setting = world.setting
    command = programs.backend(setting.scope, setting.isolation, world.provider.config.server)
    await world.run("backend", command, "provider")
    await world.our_konnector()
    spec = {
        "templateRef": {"name": "widgets"},
        "clusterIdentity": {"identity": "interop", "prettyName": "interop"},
        "author": "interop",
    }
    body = {"apiVersion": API_VERSION, "kind": "BindableResourcesRequest", "spec": spec}
    metadata = {"name": "interop", "namespace": "default"}
    await world.provider.create(BINDABLERESOURCESREQUESTS, body | {"metadata": metadata})
    found = await wait_for(
        world.provider,
        SECRETS,
        "interop-binding-response",
        "default",
        until=lambda found: "" if found is not None else "there is no answer",
        timeout=setting.timeout,
    )
    assert found is not None  # noqa: S101
    answer = base64.b64decode(found.to_dict()["data"]["binding-response"])
    write(world.file("answer.json"), answer)
    write(world.file("request.json"), json.dumps(_request(setting)).encode())
    arguments = (
        "-f",
        str(world.file("answer.json")),
        "--request",
        str(world.file("request.json")),
    )
    await _ours(world, "bind", *arguments)
    kubeconfig = parse_kubeconfig(base64.b64decode(json.loads(answer)["kubeconfig"]))
    return await checks.run(world.pair("widgets", kubeconfig.namespace))


async def deploy(world: World) -> list[Outcome]:
    """The original's CLI takes our invitation with ``deploy -f``."""
    answer = await _invited_by_file(world)
    arguments = ("deploy", "-f", str(world.file("invitation.json")))
    return await _by_cli(world, answer, *arguments)


async def apiservice(world: World) -> list[Outcome]:
    """The original's CLI makes a request itself with our invitation's kubeconfig."""
    answer = await _invited_by_file(world)
    write(world.file("request.json"), json.dumps(answer["requests"][0]).encode())
    write(world.file("invitation.kubeconfig"), base64.b64decode(answer["kubeconfig"]))
    arguments = (
        *("apiservice", "-f", str(world.file("request.json"))),
        *("--remote-kubeconfig", str(world.file("invitation.kubeconfig"))),
        *("--remote-namespace", answer["providerNamespace"]),
    )
    return await _by_cli(world, answer, *arguments)


async def _invited_by_file(world: World) -> JSON:
    await world.our_provider()
    await world.our_konnector()
    answer = await world.invited()
    write(world.file("invitation.json"), json.dumps(answer).encode())
    return answer


async def _by_cli(world: World, answer: JSON, *arguments: str) -> list[Outcome]:
    server = "https://interop.invalid"
    config = {"apiVersion": "v1", "kind": "Config", "servers": {server: {"url": server}}}
    write(world.file("servers.json"), json.dumps(config | {"current": server}).encode())
    consumer = world.file("consumer.kubeconfig")
    # It tells nothing by its exit code; whether it has bound is what the checks say.
    command = programs.original(
        "KUBECTL_BIND",
        *arguments,
        *("--kubeconfig", str(consumer), "--skip-konnector"),
        *("--config-file", str(world.file("servers.json"))),
    )
    said = await call(command, consumer, world.folder, timeout=world.setting.timeout)
    # The rights of what somebody else has bound are given by an administrator.
    await _ours(world, "accept", "widgets")
    world.file("cli.log").write_text(said)
    return await checks.run(world.pair("widgets", answer["providerNamespace"]))


async def _ours(world: World, *arguments: str) -> None:
    command = [*OURS, *arguments]
    consumer = world.file("consumer.kubeconfig")
    await call(command, consumer, world.folder, timeout=world.setting.timeout + 30)


Run = Callable[[World], Awaitable[list[Outcome]]]

RUNS: dict[str, dict[str, Run]] = {
    "konnector": {"konnector": konnector},
    "backend": {"backend": backend, "backend door": door.at_theirs},
    "cli": {"cli deploy": deploy, "cli apiservice": apiservice, "cli door": door.at_ours},
    "door": {"door": door.both_at_theirs},
    "page": {"page door": door.at_their_page},
    "kbind": {
        "kbind original after ours": kbind.original_after_ours,
        "kbind ours after original": kbind.ours_after_original,
        "kbind beside": kbind.beside,
    },
}


def _request(setting: Setting) -> JSON:
    spec = example("template")["spec"]
    text = json.dumps({key: spec[key] for key in ("resources", "permissionClaims")})
    renamed = json.loads(text.replace('"widgets"', f'"{setting.plural}"'))
    body = {"apiVersion": API_VERSION, "kind": "APIServiceExportRequest", "spec": renamed}
    return body | {"metadata": {"name": "widgets"}}
