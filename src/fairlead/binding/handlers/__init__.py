"""The stages of the pipeline, by the part of the way; each reads and writes its context alone."""
