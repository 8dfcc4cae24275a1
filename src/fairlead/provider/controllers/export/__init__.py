"""APIServiceExport: the hash of its schemas, by which the konnector notices a change."""
