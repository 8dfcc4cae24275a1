"""Example objects of a kind: YAML to copy, made from its schema."""

from fairlead.portal.console.examples.making import example


__all__ = ["example"]
