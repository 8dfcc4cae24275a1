"""APIServiceExportRequest: a consumer's wish becomes BoundSchemas and an APIServiceExport."""
