"""One stage of the pipeline per module; each reads and writes its context alone."""
