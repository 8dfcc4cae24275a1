"""Forms for objects of a CRD: from its schema to inputs, and from what was posted to YAML."""

from fairlead.portal.console.authoring.entries import TooMuchError
from fairlead.portal.console.authoring.forms import Blank, Form, fields_of, read, start


__all__ = ["Blank", "Form", "TooMuchError", "fields_of", "read", "start"]
