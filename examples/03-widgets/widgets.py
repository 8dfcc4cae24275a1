"""A CRD of your own becomes an API in another cluster; objects go there, statuses come back."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from stage import Stage, exists, field, play


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


async def story(stage: Stage) -> None:
    """Offer widgets, bind them, make one, and play the factory."""
    provider, consumer = await stage.sandbox("provider", "consumer")
    await provider.apply("crd.yaml")
    await stage.install(
        provider,
        *("provider", "--export", "widgets.example.org"),
        *("--claim", "secrets", "--claim", "configmaps"),
    )
    await stage.start("provider", "run", "--kubeconfig", provider.kubeconfig)
    await provider.apply("template.yaml")
    stage.saw("the provider offers widgets")

    to_provider = ("--kubeconfig", provider.kubeconfig)
    await stage.run(
        *("provider", "invite", "team-a", "--template", "widgets", "-o", "team-a.json"),
        *to_provider,
    )
    await stage.install(consumer, "konnector")
    await stage.start("konnector", "run", "--kubeconfig", consumer.kubeconfig)
    await stage.run("bind", "-f", "team-a.json", "--kubeconfig", consumer.kubeconfig)
    await consumer.wait(CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource, exists)
    stage.saw("the consumer has the kind Widget")

    await consumer.apply("sample.yaml")
    copy = await provider.first(WIDGETS)
    place = copy["metadata"]["namespace"]
    stage.saw(f"widget blue has come to the provider's namespace {place}")

    status: JSON = {"status": {"made": 3, "factory": "north"}}
    stage.command(f"kubectl --kubeconfig {provider.kubeconfig} -n {place} patch widget blue ...")
    await provider.client.merge_patch(WIDGETS, "blue", place, status, subresource="status")
    found = await consumer.wait(WIDGETS, "blue", field("status", "made", value=3), "default")
    stage.saw(f"its status has come back: {found['status']}")


if __name__ == "__main__":
    play(__file__, story)
