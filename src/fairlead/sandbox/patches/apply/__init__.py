"""Server-side apply: owners of fields, conflicts between them, and what an apply leaves."""
