"""What a real cluster needs to run the front door, with no right too many."""
