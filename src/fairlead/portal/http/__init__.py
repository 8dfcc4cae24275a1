"""The server: limits, errors, headers, and how the outside reaches it."""
