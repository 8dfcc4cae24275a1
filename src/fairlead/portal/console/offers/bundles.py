"""The file for binding with kubectl: the kubeconfig, the konnector's rights, and a bundle."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import yaml

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    KUBECONFIG_NAME,
    decode_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.konnector.commands.rehearsal import planned


def bundle(response: JSON) -> bytes:
    """Return the manifests for the consumer's cluster as YAML, with credentials.

    The bundle binds all exports of the provider to this cluster; the rights are limited to the
    resources of the response.
    """
    decoded = decode_binding_response(msgspec.json.encode(response))
    renamed = response["bindingName"]
    requests = [
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, name=renamed))
        for one in decoded.requests
    ]
    objects = planned(msgspec.structs.replace(decoded, requests=requests))
    name: str = response["providerNamespace"]
    documents = [one for each in objects for one in _changed(each, response, name)]
    return yaml.safe_dump_all(documents, sort_keys=False).encode()


def _changed(planned: JSON, response: JSON, name: str) -> Iterator[JSON]:
    if planned["kind"] == "Secret":
        yield planned | {"data": {KUBECONFIG_NAME: response["kubeconfig"]}}
    elif planned["kind"] == APISERVICEBINDINGS.kind:
        yield {
            "apiVersion": API_VERSION,
            "kind": APISERVICEBINDINGBUNDLES.kind,
            "metadata": {"name": name},
            "spec": planned["spec"],
        }
    else:
        yield planned
