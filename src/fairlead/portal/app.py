"""The front door, put together."""
