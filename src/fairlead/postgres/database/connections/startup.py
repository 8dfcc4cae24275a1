"""Startup options of a session, which the owner of a database cannot change.

The owner of a database may set nearly every parameter for the sessions in it; startup options win
over those (https://www.postgresql.org/docs/current/config-setting.html). Parameters without effect
on the operator's statements are left out, and synchronous_commit, which the server's administrator
decides.
"""

from __future__ import annotations

import os

from psycopg.pq import Conninfo

from fairlead.postgres import bounds


APPLICATION = "fairlead-postgres"

_MEANING = {
    # Set by the options alone: its value at the server tells whether they have arrived.
    "application_name": APPLICATION,
    # A database's owner could otherwise shadow functions of PostgreSQL in these sessions. pg_temp
    # is named because PostgreSQL searches it before all others where it is not.
    "search_path": "pg_catalog,pg_temp",
    # With ALTER DATABASE ... SET role the session would act as a role of the owner's choice.
    "role": "none",
    "row_security": "on",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    "DateStyle": "ISO,MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "default_tablespace": "",
    "temp_tablespaces": "",
}
_LIFE = {
    # A library that does not load, or a limit of 1 ms, would lock the operator out of a database,
    # and so out of the removal of each role that has something there.
    "local_preload_libraries": "",
    "exit_on_error": "off",
    "statement_timeout": f"{bounds.STATEMENT_SECONDS}s",
    # As in PATIENT of ``session``, for the statements outside of its transactions.
    "lock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "60s",
    # The sessions of the pool are idle between passes. For TCP 0 is the default of the server's
    # system.
    "idle_session_timeout": "0",
    "tcp_user_timeout": "0",
    "tcp_keepalives_idle": "0",
    "tcp_keepalives_interval": "0",
    "tcp_keepalives_count": "0",
    "client_connection_check_interval": "0",
}
_LOGS = {
    # At debug5, which a database's owner may set, each answer has many messages.
    "client_min_messages": "warning",
    "debug_print_parse": "off",
    "debug_print_rewritten": "off",
    "debug_print_plan": "off",
    "log_parameter_max_length_on_error": "0",
    "trace_sort": "off",
}
_PLANS = {
    **dict.fromkeys(
        (
            "enable_bitmapscan",
            "enable_hashagg",
            "enable_hashjoin",
            "enable_indexonlyscan",
            "enable_indexscan",
            "enable_material",
            "enable_memoize",
            "enable_mergejoin",
            "enable_seqscan",
            "enable_sort",
        ),
        "on",
    ),
    # The planner cannot estimate the rows of parameters; nested loops are the worst guess.
    "enable_nestloop": "off",
    "cpu_index_tuple_cost": "0.005",
    "cpu_operator_cost": "0.0025",
    "cpu_tuple_cost": "0.01",
    "effective_cache_size": "4GB",
    "from_collapse_limit": "8",
    # Without geqo, jit and parallel workers their other parameters have no effect, and are not
    # set.
    "geqo": "off",
    "hash_mem_multiplier": "2",
    "jit": "off",
    "join_collapse_limit": "8",
    "max_parallel_workers_per_gather": "0",
    "plan_cache_mode": "auto",
    "random_page_cost": "4",
    "seq_page_cost": "1",
    "work_mem": "8MB",
}
# test_hostile_settings has the parameters that are left out as harmless, and fails for any other.
OPTIONS = _MEANING | _LIFE | _LOGS | _PLANS
"""Parameters that PostgreSQL 14 and all later versions have, and their values."""

# With createrole_self_grant the administrator would inherit from each role that it creates; it
# does so for moments alone, see ``acting``.
_NEWER = {"transaction_timeout": (170000, "0"), "createrole_self_grant": (160000, "")}
"""Parameters of later versions, the latest first: ``server_version_num`` and value."""

NEWEST = 170000
"""``server_version_num`` of the first version that knows all options."""


_ENVIRONMENT = frozenset(
    {
        *(one.envvar.decode() for one in Conninfo.get_defaults() if one.envvar),
        # Read beside those of the parameters.
        *("PGDATESTYLE", "PGGEQO", "PGOAUTHDEBUG", "PGREALM", "PGREQUIRESSL"),
        *("PGSERVICEFILE", "PGSYSCONFDIR", "PGTZ"),
    }
)
"""Environment variables that libpq reads.

https://www.postgresql.org/docs/current/libpq-envars.html
"""


def forget_environment() -> None:
    """Remove the variables from the environment of this process that libpq would read.

    Only objects in the cluster say where a server is and how to log in. No parameter undoes all
    variables: libpq looks up an empty ``service`` too.
    """
    for name in _ENVIRONMENT & os.environ.keys():
        del os.environ[name]


def start_options(version: int) -> str:
    """Return the ``options`` of a login to a server of this ``server_version_num``."""
    newer = {name: value for name, (since, value) in _NEWER.items() if version >= since}
    return " ".join(f"-c {name}={_escaped(value)}" for name, value in (OPTIONS | newer).items())


def _escaped(value: str) -> str:
    # The server splits the options at blanks; a backslash keeps the character after it.
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def older_version(refusal: str, version: int) -> int | None:
    """Return the version to try next after a refusal of an option, None for another refusal.

    ``refusal`` is the text of the failed login, in any language; it names the option.
    """
    for name, (since, _) in _NEWER.items():
        if version >= since and f'"{name}"' in refusal:
            return since - 1
    return None
