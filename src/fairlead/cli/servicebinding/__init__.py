"""The commands of Service Binding: the controllers, and commands without a cluster."""
