"""The cluster around the pipeline: reads answered, reads watched, and what was decided written."""
