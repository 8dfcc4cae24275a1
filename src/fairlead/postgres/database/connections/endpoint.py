"""Where a PostgreSQL server is, and how its administrator logs in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a server is and how its administrator logs in.

    ``ca``, ``certificate`` and ``key`` are PEM; without ``ca`` the system's roots verify, and
    without ``password`` the certificate alone logs in. ``maintenance`` is the database where role
    work is serialised; ``public_host`` and ``public_port`` are where clients go, ``revoke_public``
    what is taken from PUBLIC in the databases that grants name, and ``shares_groups`` whether
    accesses share groups that do not say it themselves. Of a ``discreet`` one nothing is
    told that would show what else listens where.
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
    discreet: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
