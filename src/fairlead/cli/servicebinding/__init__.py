"""The commands of Service Binding: the controllers, and what needs no cluster."""
