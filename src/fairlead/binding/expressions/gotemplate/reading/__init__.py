"""From the text of a template to its nodes: parser > pipelines > lexer > literals."""
