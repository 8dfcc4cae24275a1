"""Where a PostgreSQL server is, and how its administrator logs in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a server is and how its administrator logs in.

    ``maintenance`` is the database where role work is serialised; ``public_host`` and
    ``public_port`` are where clients go.
    """

    host: str
    port: int
    username: str
    password: str = field(repr=False)
    ssl_mode: str
    ca: str = ""
    maintenance: str = "postgres"
    fallback: str = ""
    public_host: str = ""
    public_port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
