"""The logic of Service Binding's commands."""
