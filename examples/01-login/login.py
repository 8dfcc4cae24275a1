"""A PostgresAccess becomes a role, its privileges and a Secret with the login."""

from __future__ import annotations

import psycopg

from fairlead.api.postgresaccess import POSTGRESACCESSES
from stage import Stage, play, query


async def story(stage: Stage) -> None:
    """Ask for a login, and use it."""
    (cluster,) = await stage.sandbox("sandbox", postgres=True)
    await stage.start("postgres", "run", "--kubeconfig", cluster.kubeconfig)
    await cluster.apply("access.yaml")
    await cluster.ready(POSTGRESACCESSES, "shop-database")
    login = await cluster.secret("shop-database-login")
    stage.saw(f"Secret shop-database-login: {', '.join(sorted(login))}")

    stage.saw(f"logged in as {await query(login, 'SELECT current_user')}")
    orders = await query(login, "SELECT count(*) FROM orders")
    stage.saw(f"may read: {orders} orders")
    try:
        await query(login, "DELETE FROM orders")
    except psycopg.errors.InsufficientPrivilege as error:
        stage.saw(f"may not delete: {error.diag.message_primary}")
    else:
        stage.expect([], "the login may delete orders, which no grant allows")


if __name__ == "__main__":
    play(__file__, story)
