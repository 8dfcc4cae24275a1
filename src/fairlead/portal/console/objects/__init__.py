"""Objects of exported kinds: ``kinds`` watches them, and ``sights`` checks rights."""
