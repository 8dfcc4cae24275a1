"""The address of a PostgreSQL server, and the login of its administrator."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The address of a server and the login of its administrator.

    ``ca``, ``certificate`` and ``key`` are PEM; without ``ca`` the system's roots verify, and
    without ``password`` the certificate alone logs in. ``maintenance`` is the database in which
    work on roles is serialized, ``fallback`` another one if that is closed to the administrator.
    ``public_host`` and ``public_port`` are the address for clients, ``revoke_public`` the
    privileges that PUBLIC loses in the databases of grants. ``shares_groups`` is the default of
    spec.groups: Shared. With ``plain_passwords`` the server gets passwords in place of verifiers.
    Errors of a ``discreet`` endpoint do not tell what else listens at its
    address. ``of_tenant`` tells that a tenant names the server: answers of all such servers have a
    bound together.
    """

    host: str
    port: int
    username: str
    password: str = field(repr=False)
    ssl_mode: str
    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    maintenance: str = "postgres"
    fallback: str = ""
    public_host: str = ""
    public_port: int = 0
    revoke_public: frozenset[str] = frozenset()
    shares_groups: bool = False
    plain_passwords: bool = False
    discreet: bool = False
    of_tenant: bool = False
    # Two Secrets with the same login lead to the same server.
    source: str = field(default="", compare=False)
    """Object that has the credentials, for messages, such as ``Secret team/admin``."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
