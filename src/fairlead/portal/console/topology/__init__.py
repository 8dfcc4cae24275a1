"""The chain of services as a drawing and as rows; nothing here reads, waits or writes."""
