"""Pages for people: server-rendered, without script, read with what the session may see."""
