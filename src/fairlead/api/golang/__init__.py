"""Go's values: its types and their names, literals, and the text that it prints.

Messages of Kubernetes show values as Go does, and so do templates (https://pkg.go.dev/fmt).
"""
