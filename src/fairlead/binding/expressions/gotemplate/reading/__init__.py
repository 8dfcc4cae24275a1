"""Parsing of templates, in layers: parser > pipelines > lexer > literals."""
