"""The commands of PostgresAccess: the operator, and reports about servers and accesses."""
