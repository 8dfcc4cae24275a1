"""A Controller decides which connections an access may have without a PostgresServer."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from stage import Stage, condition, play, query


OPERATOR = "fairlead-postgres"


def object_(kind: str, name: str, namespace: str = "", **fields: object) -> JSON:
    """Return an object of the core group."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


async def story(stage: Stage) -> None:
    """Ask for a server that no setting allows, and allow it."""
    (cluster,) = await stage.sandbox("sandbox", postgres=True)
    await cluster.apply("controller.yaml")
    await stage.start("postgres", "run", "--kubeconfig", cluster.kubeconfig)

    server = (await cluster.client.get(POSTGRESSERVERS, "main")).to_dict()["spec"]
    host, port = server["host"], str(server["port"])
    for name in ("shop", "shop-databases"):
        await cluster.create(object_("Namespace", name))
    entries = await cluster.secret("main-admin", OPERATOR)
    entries |= {"host": host, "port": port, "sslmode": "disable"}
    await cluster.create(object_("Secret", "postgres-admin", "shop-databases", stringData=entries))

    await cluster.apply("by-secret.yaml")
    refused = condition("Ready", "False")
    found = await cluster.wait(POSTGRESACCESSES, "by-secret", refused)
    stage.saw(f"refused: {found['status']['lastLog']}")

    settings = (await cluster.client.get(CONTROLLERS, "settings", OPERATOR)).to_dict()
    connections = settings["spec"]["settings"]["postgres"]["connections"]
    patch = {"hosts": [*connections["hosts"], f"{host}:{port}"]}
    stage.command(f"kubectl -n {OPERATOR} edit controllers.access.k8s.delta10.nl settings")
    await cluster.client.merge_patch(
        CONTROLLERS,
        "settings",
        OPERATOR,
        {"spec": {"settings": {"postgres": {"connections": patch}}}},
    )
    await cluster.ready(POSTGRESACCESSES, "by-secret")
    login = await cluster.secret("by-secret-login")
    stage.saw(f"allowed: logged in as {await query(login, 'SELECT current_user')}")


if __name__ == "__main__":
    play(__file__, story)
