"""Parts of ``fairlead console`` alone: entry by a link of the terminal, and unbinding."""
