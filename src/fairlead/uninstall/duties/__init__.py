"""Objects that each program has to clean up before its removal, one module for each program."""
