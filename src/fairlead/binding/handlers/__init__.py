"""The stages of the pipeline, in modules by task; each uses only its context."""
