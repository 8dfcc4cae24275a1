"""What an operator of the front door may decide."""
