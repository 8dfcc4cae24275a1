"""APIServiceExport: its hash tells the konnector when a schema has changed."""
