"""What the owner of a database may set for everyone, and that the administrator never has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql
from tests.support.pgserver import claim, cleanup, endpoint_of, grant, sync, wanted
from tests.support.servers import Servers
from tests.support.tiers import VERSIONS

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections import login, startup
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.login import connect


HARMLESS = {
    "backend_flush_after",
    "check_function_bodies",
    "commit_siblings",
    "constraint_exclusion",
    "cursor_tuple_fraction",
    "debug_logical_replication_streaming",
    "debug_parallel_query",
    "debug_pretty_print",
    "default_statistics_target",
    "default_table_access_method",
    "default_text_search_config",
    "default_toast_compression",
    "effective_io_concurrency",
    "enable_async_append",
    "enable_distinct_reordering",
    "enable_gathermerge",
    "enable_group_by_reordering",
    "enable_incremental_sort",
    "enable_parallel_append",
    "enable_parallel_hash",
    "enable_partition_pruning",
    "enable_partitionwise_aggregate",
    "enable_partitionwise_join",
    "enable_presorted_aggregate",
    "enable_self_join_elimination",
    "enable_tidscan",
    "escape_string_warning",
    "file_copy_method",
    "force_parallel_mode",
    "geqo_effort",
    "geqo_generations",
    "geqo_pool_size",
    "geqo_seed",
    "geqo_selection_bias",
    "geqo_threshold",
    "gin_fuzzy_search_limit",
    "gin_pending_list_limit",
    "icu_validation_level",
    "io_combine_limit",
    "jit_above_cost",
    "jit_expressions",
    "jit_inline_above_cost",
    "jit_optimize_above_cost",
    "jit_tuple_deforming",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "logical_decoding_work_mem",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "max_parallel_maintenance_workers",
    "max_parallel_workers",
    "md5_password_warnings",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_leader_participation",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "password_encryption",
    "recursive_worktable_factor",
    "restrict_nonsystem_relation_kind",
    "scram_iterations",
    "stats_fetch_consistency",
    "synchronize_seqscans",
    "synchronous_commit",
    "temp_buffers",
    "timezone_abbreviations",
    "trace_notify",
    "vacuum_buffer_usage_limit",
    "vacuum_cost_delay",
    "vacuum_cost_limit",
    "vacuum_cost_page_dirty",
    "vacuum_cost_page_hit",
    "vacuum_cost_page_miss",
    "vacuum_failsafe_age",
    "vacuum_freeze_min_age",
    "vacuum_freeze_table_age",
    "vacuum_max_eager_freeze_failure_rate",
    "vacuum_multixact_failsafe_age",
    "vacuum_multixact_freeze_min_age",
    "vacuum_multixact_freeze_table_age",
    "vacuum_truncate",
    "wal_sender_timeout",
    "wal_skip_threshold",
    "xmlbinary",
    "xmloption",
}
"""What may stay as an owner has it. Whatever is new in PostgreSQL is looked at first."""

HIDDEN = ("role", "session_authorization", "seed")
"""Parameters that pg_settings does not list."""

_STRINGS = ("x", "", "pg_catalog, x", "owner", "a'b\\c", "SQL_ASCII", "German, YMD", "UTC+3")


class Setting(NamedTuple):
    name: str
    kind: str
    low: str | None
    high: str | None
    choices: list[str] | None
    initial: str | None

    def values(self, number: int) -> list[str]:
        """Hostile values, those of each round first the one that has not been yet."""
        if self.choices:
            found = self.choices
        elif self.kind == "bool":
            found = ["off", "on"] if self.initial == "on" else ["on", "off"]
        elif self.low is not None and self.high is not None:
            found = [self.low, self.high, "1", "0"]
        else:
            found = list(_STRINGS)
        turn = number % len(found)
        return found[turn:] + found[:turn]


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture
async def owner(server: EmbeddedPostgres) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Who owns database d, and nothing else; the session is in another one."""
    async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as admin:
        await admin.execute("CREATE ROLE owner LOGIN PASSWORD 'owner'")
        await admin.execute("CREATE DATABASE d OWNER owner")
        async with await psycopg.AsyncConnection.connect(
            server.dsn("d", "owner", "owner"), autocommit=True
        ) as own:
            await own.execute("CREATE SCHEMA s CREATE TABLE t (id int)")
        async with await psycopg.AsyncConnection.connect(
            server.dsn("postgres", "owner", "owner"), autocommit=True
        ) as own:
            yield own
        await admin.execute("DROP DATABASE d WITH (FORCE)")
        await admin.execute("DROP ROLE owner")


@pytest.fixture
def endpoint(server: EmbeddedPostgres) -> Endpoint:
    return endpoint_of(server)


async def settings(owner: psycopg.AsyncConnection[Any]) -> list[Setting]:
    cursor = await owner.execute(
        "SELECT name, vartype, min_val, max_val, enumvals, boot_val FROM pg_settings ORDER BY 1"
    )
    listed = [Setting(*row) for row in await cursor.fetchall()]
    return listed + [Setting(name, "string", None, None, None, None) for name in HIDDEN]


async def spoil(owner: psycopg.AsyncConnection[Any], setting: Setting, number: int) -> bool:
    """Set it for all who connect; False where the owner may not, or no value is taken."""
    for value in setting.values(number):
        statement = sql.SQL("ALTER DATABASE d SET {} = {}")
        try:
            await owner.execute(statement.format(sql.Identifier(setting.name), sql.Literal(value)))
        except psycopg.Error:
            continue
        return True
    return False


@pytest.mark.parametrize("number", range(8))
async def test_no_setting_of_an_owner_reaches_the_administrator(
    server: EmbeddedPostgres,
    endpoint: Endpoint,
    owner: psycopg.AsyncConnection[Any],
    number: int,
) -> None:
    """In each round every parameter there is has another hostile value, all at once."""
    spoiled = [one.name for one in await settings(owner) if await spoil(owner, one, number)]
    assert len(spoiled) > 130
    with pytest.raises(psycopg.OperationalError):  # noqa: PT012  it may last for a moment
        async with await psycopg.AsyncConnection.connect(server.dsn("d")) as plain:
            while True:
                await plain.execute("SELECT pg_sleep(0.01)")
    async with connect(endpoint, "d") as ours:
        query = "SELECT name FROM pg_catalog.pg_settings WHERE source LIKE 'database%'"
        reached = {name for (name,) in await ours.rows(sql.SQL(query))}
        ((session_user, user),) = await ours.rows(
            sql.SQL("SELECT session_user::text, current_user::text")
        )
    assert reached - HARMLESS == set()
    assert (session_user, user) == (server.username, server.username)
    access = wanted("app", grant("d", "CONNECT", "SELECT", "CREATE", schema="s"))
    assert (await sync(endpoint, access)).problems == ()
    assert await granted(endpoint) == {("t", "SELECT")}
    again = await sync(endpoint, access)
    assert (again.changed, again.problems) == (False, ())
    assert await cleanup(endpoint, "app", claim(), "Restrict")


async def granted(endpoint: Endpoint) -> set[tuple[str, str]]:
    query = """SELECT c.relname::text, a.privilege_type FROM pg_catalog.pg_class c,
               pg_catalog.aclexplode(c.relacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
               WHERE r.rolname = 'app'"""
    async with connect(endpoint, "d") as ours:
        return {(name, privilege) for name, privilege in await ours.rows(sql.SQL(query))}


async def test_an_error_does_not_end_the_session(
    endpoint: Endpoint, owner: psycopg.AsyncConnection[Any]
) -> None:
    await owner.execute("ALTER DATABASE d SET exit_on_error = on")
    async with connect(endpoint, "d") as ours:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await ours.rows(sql.SQL("SELECT FROM nowhere"))
        assert await ours.rows(sql.SQL("SELECT 1")) == [(1,)]


@pytest.mark.differs("version")
async def test_a_server_that_was_upgraded_gets_all_options(
    server: EmbeddedPostgres, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is remembered as one of the oldest, and is what it is."""
    monkeypatch.setattr(login, "_older", {str(endpoint): 140000})
    async with connect(endpoint, "postgres") as ours:
        query = "SELECT name FROM pg_catalog.pg_settings WHERE source = 'client'"
        given = {name.lower() for (name,) in await ours.rows(sql.SQL(query))}
        version = ours.server_version
    options = {
        part.partition("=")[0].lower() for part in startup.start_options(version).split("-c ")
    }
    assert options - {"", "role"} <= given
    assert ("transaction_timeout" in given) == (version >= 170000)
    remembered = {} if version >= startup.NEWEST else {str(endpoint): version}
    assert login._older == remembered


@pytest.mark.parametrize(
    ("refusal", "version", "expected"),
    [
        ('unrecognized configuration parameter "transaction_timeout"', 170000, 169999),
        ('unbekannter Konfigurationsparameter "createrole_self_grant"', 169999, 159999),
        ('unrecognized configuration parameter "createrole_self_grant"', 159999, None),
        ('unrecognized configuration parameter "search_path"', 170000, None),
        ("password authentication failed", 170000, None),
    ],
)
def test_which_version_is_tried_next(refusal: str, version: int, expected: int | None) -> None:
    assert startup.older_version(refusal, version) == expected
