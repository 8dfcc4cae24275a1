"""A provider with nothing installed: a kind with a label, a Role, and one file at the consumer."""

from __future__ import annotations

import base64

import yaml

from fairlead.api.kbind import BINDINGS, CONNECTIONS
from fairlead.api.kbind.files import kubeconfig_secret
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from stage import Cluster, Stage, absent, exists, field, play


CERTIFICATES = Resource("pki.acme.io", "v1", "certificates", "Certificate")


async def story(stage: Stage) -> None:
    """Offer a kind by a label, bind it by one file, and take everything away."""
    provider, consumer = await stage.sandbox("provider", "consumer")
    await provider.apply("provider.yaml")
    stage.saw("the provider has a labelled kind and an account, and runs no program")

    await stage.install(consumer, "konnector")
    await stage.start("konnector", "run", "--kubeconfig", consumer.kubeconfig)
    stage.command(
        f"kubectl --kubeconfig {consumer.kubeconfig} -n kube-bind create secret generic "
        "acme-kubeconfig --from-file=kubeconfig"
    )
    kubeconfig = await kubeconfig_of(provider)
    await consumer.create(kubeconfig_secret("acme", kubeconfig, namespace="kube-bind"))
    await consumer.apply("rights.yaml")
    await consumer.apply("consumer.yaml")
    await consumer.ready(BINDINGS, "certificates")
    await consumer.wait(CUSTOMRESOURCEDEFINITIONS, CERTIFICATES.group_resource, exists)
    stage.saw("the consumer has the kind Certificate")

    await consumer.apply("certificate.yaml")
    copy = await provider.wait(CERTIFICATES, "web", exists)
    stage.saw(f"the provider has certificate web for {copy['spec']['host']}")
    status: JSON = {"status": {"serial": "4f:1c"}}
    stage.command(f"kubectl --kubeconfig {provider.kubeconfig} -n shop patch certificate web ...")
    await provider.client.merge_patch(CERTIFICATES, "web", "shop", status, subresource="status")
    body = await consumer.wait(CERTIFICATES, "web", field("status", "serial", value="4f:1c"))
    stage.saw(f"its status has come back: {body['status']}")

    await consumer.delete(CERTIFICATES, "web")
    await consumer.delete(BINDINGS, "certificates")
    await consumer.delete(CONNECTIONS, "acme")
    await consumer.wait(CONNECTIONS, "acme", absent)
    await provider.wait(CERTIFICATES, "web", absent)
    stage.saw("everything of the consumer has gone from the provider")


async def kubeconfig_of(provider: Cluster) -> bytes:
    """Return a kubeconfig with the token of the consumer's account, and nothing else."""
    secret = await provider.wait(SECRETS, "consumer-token", has_token)
    config = provider.client.config
    authority = base64.b64encode(config.certificate_authority).decode()
    cluster = {"server": config.server, "certificate-authority-data": authority}
    token = base64.b64decode(secret["data"]["token"]).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "provider", "cluster": cluster}],
            "users": [{"name": "consumer", "user": {"token": token}}],
            "contexts": [
                {"name": "provider", "context": {"cluster": "provider", "user": "consumer"}}
            ],
            "current-context": "provider",
        }
    ).encode()


def has_token(secret: Object | None) -> str:
    """Check that the cluster has filled in the token of an account."""
    return "" if secret and secret.to_dict().get("data", {}).get("token") else "has no token"


if __name__ == "__main__":
    play(__file__, story)
