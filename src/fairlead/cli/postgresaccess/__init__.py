"""The commands of PostgresAccess that look and change nothing."""
