"""Pages about all consumers, for administrators: list, details and actions."""
