"""Forms for objects of a CRD: inputs from its schema, and YAML from the posted values."""

from fairlead.portal.console.authoring.entries import TooMuchError
from fairlead.portal.console.authoring.forms import Blank, Form, fields_of, read, start


__all__ = ["Blank", "Form", "TooMuchError", "fields_of", "read", "start"]
