"""Pages for people: rendered by the server, without script, each with what its person may see."""
