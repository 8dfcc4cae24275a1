"""A password changes and no login fails, for two logins take turns in the Secret."""

from __future__ import annotations

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import SECRETS
from stage import Stage, decoded, play, query


ROTATE_AT = "access.k8s.delta10.nl/rotate-at"
ROLES = "SELECT session_user || ', who acts as ' || current_user"


async def story(stage: Stage) -> None:
    """Log in, rotate, and log in with both logins."""
    (cluster,) = await stage.sandbox("sandbox", postgres=True)
    await stage.start("postgres", "run", "--kubeconfig", cluster.kubeconfig)
    await cluster.apply("access.yaml")
    await cluster.ready(POSTGRESACCESSES, "shop-database")
    first = await cluster.secret("shop-database-login")
    stage.saw(f"logged in as {await query(first, ROLES)}")

    stage.command(f"kubectl -n shop annotate postgresaccess shop-database {ROTATE_AT}=now")
    patch = {"metadata": {"annotations": {ROTATE_AT: "now"}}}
    await cluster.client.merge_patch(POSTGRESACCESSES, "shop-database", "shop", patch)

    def rotated(found: Object | None) -> str:
        login = decoded(found.to_dict()) if found else {}
        return "" if login.get("username") != first["username"] else "has the former login"

    await cluster.wait(SECRETS, "shop-database-login", rotated)
    second = await cluster.secret("shop-database-login")
    stage.saw(f"after the rotation: logged in as {await query(second, ROLES)}")
    stage.saw(f"the former login still works: {await query(first, ROLES)}")


if __name__ == "__main__":
    play(__file__, story)
