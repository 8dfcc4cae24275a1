"""The commands of PostgresAccess: the operator, and what looks at servers and accesses."""
