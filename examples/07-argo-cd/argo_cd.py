"""A sync from Git takes nothing away that a ServiceBinding has put onto a Deployment."""

from __future__ import annotations

from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from stage import Stage, play


ARGO_CD = "argocd-controller"
"""The field manager of Argo CD."""


async def story(stage: Stage) -> None:
    """Sync as Argo CD does, server-side; bind; sync again."""
    (cluster,) = await stage.sandbox("sandbox")
    await stage.start("binding", "run", "--kubeconfig", cluster.kubeconfig)
    await cluster.apply("app.yaml", manager=ARGO_CD)
    await cluster.ready(SERVICEBINDINGS, "queue")
    bound = await cluster.client.get(DEPLOYMENTS, "shop", "shop")
    (container,) = bound.to_dict()["spec"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    stage.saw(f"the ServiceBinding mounts {mount['mountPath']}")

    await cluster.apply("app.yaml", manager=ARGO_CD)
    synced = await cluster.client.get(DEPLOYMENTS, "shop", "shop")
    stage.expect(
        synced.to_dict()["spec"] == bound.to_dict()["spec"], "the second sync has changed it"
    )
    stage.saw("a second sync has changed nothing")
    managers = {one["manager"] for one in synced.to_dict()["metadata"]["managedFields"]}
    stage.saw(f"the fields belong to {' and '.join(sorted(managers))}")
    stage.expect("fairlead-binding" in managers, "the fields have no manager fairlead-binding")


if __name__ == "__main__":
    play(__file__, story)
