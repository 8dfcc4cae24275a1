"""The pipeline in a cluster: answers its reads, watches them, and writes its decisions."""
