"""Go's values in Python: type names, literals, and printing as ``fmt`` does it.

Messages of Kubernetes show values as Go does, and so do templates (https://pkg.go.dev/fmt).
"""
