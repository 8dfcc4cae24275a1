"""What the commands of Service Binding find out."""
