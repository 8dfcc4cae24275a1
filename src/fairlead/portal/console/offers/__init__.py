"""The offers of a provider: catalogue, page of a template, and binding it."""
