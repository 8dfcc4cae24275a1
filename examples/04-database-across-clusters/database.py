"""Three manifests of an app team become a database login of another cluster, in the app."""

from __future__ import annotations

import sys

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from stage import Stage, play


async def story(stage: Stage) -> None:
    """Offer logins in one cluster, ask for one in the other, and run the app."""
    provider, consumer = await stage.sandbox("provider", "consumer", postgres=True)
    await stage.install(
        provider, "provider", "--export", POSTGRESACCESSES.group_resource, "--claim", "secrets"
    )
    await stage.start("postgres", "run", "--exported", "--kubeconfig", provider.kubeconfig)
    await stage.start("provider", "run", "--kubeconfig", provider.kubeconfig)
    # The PostgresServer of the file is there already, with the address of the sandbox's own.
    await provider.apply("provider.yaml", without="PostgresServer")
    await stage.run(
        *("provider", "invite", "shop-team", "--template", "postgres", "-o", "shop-team.json"),
        *("--kubeconfig", provider.kubeconfig),
    )
    stage.saw("the provider offers logins")

    await stage.install(consumer, "konnector")
    await stage.start("konnector", "run", "--kubeconfig", consumer.kubeconfig)
    await stage.start("binding", "run", "--kubeconfig", consumer.kubeconfig)
    await stage.run("bind", "-f", "shop-team.json", "--kubeconfig", consumer.kubeconfig)
    await consumer.apply("app.yaml")
    await consumer.ready(POSTGRESACCESSES, "shop-database")
    await consumer.ready(SERVICEBINDINGS, "shop")
    stage.saw("the app team's three manifests are Ready")

    app = (sys.executable, "-m", "fairlead.demo.app")
    to_consumer = ("--kubeconfig", consumer.kubeconfig)
    await stage.run("explain", "deployment/shop", "-n", "shop", *to_consumer)
    output = await stage.run(
        *("sandbox", "run", "deployment/shop", "-n", "shop", *to_consumer, "--", *app)
    )
    for line in output.splitlines():
        stage.saw(f"the app: {line}")
    stage.expect("current_user shop in database shop" in output, "the app has not logged in")


if __name__ == "__main__":
    play(__file__, story)
