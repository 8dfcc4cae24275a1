"""A ServiceBinding brings the entries of a Secret into the containers of a Deployment."""

from __future__ import annotations

from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from stage import Stage, absent, play


LOOK = 'cd "$SERVICE_BINDING_ROOT" && echo "files:" */* && echo "QUEUE_HOST: $QUEUE_HOST"'


async def story(stage: Stage) -> None:
    """Bind, run the app's container as a process, and unbind."""
    (cluster,) = await stage.sandbox("sandbox")
    await stage.start("binding", "run", "--kubeconfig", cluster.kubeconfig)
    await cluster.apply("app.yaml")
    await cluster.apply("binding.yaml")
    await cluster.ready(SERVICEBINDINGS, "queue")

    shell = ("sandbox", "run", "--kubeconfig", cluster.kubeconfig, "-n", "shop")
    output = await stage.run(*shell, "deployment/shop", "--", "sh", "-c", LOOK)
    for line in output.splitlines():
        stage.saw(line)
    stage.expect("queue/password" in output, f"the app has seen {output}")

    await cluster.delete(SERVICEBINDINGS, "queue")
    await cluster.wait(SERVICEBINDINGS, "queue", absent)
    after = (await cluster.client.get(DEPLOYMENTS, "shop", "shop")).to_dict()
    volumes = after["spec"]["template"]["spec"].get("volumes", [])
    stage.expect(not volumes, f"the Deployment still has {volumes}")
    stage.saw("without the ServiceBinding the Deployment mounts nothing")


if __name__ == "__main__":
    play(__file__, story)
