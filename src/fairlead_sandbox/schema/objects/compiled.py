"""A CRD's schema, compiled once to functions that prune, default and validate objects."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import ExhaustedError, Report
from fairlead_sandbox.schema.errors import FieldError, invalid
from fairlead_sandbox.schema.objects.defaults import compile_defaulter
from fairlead_sandbox.schema.objects.embedded import compile_embedded_check
from fairlead_sandbox.schema.objects.lists import compile_list_check
from fairlead_sandbox.schema.objects.prune import compile_pruner
from fairlead_sandbox.schema.objects.ratcheting import Ratchet
from fairlead_sandbox.schema.objects.rules import compile_rules
from fairlead_sandbox.schema.objects.values import compile_check


_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Reasons of errors after which CEL rules are not evaluated, as in kube-apiserver."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class CompiledSchema:
    """The schema of one version of a custom resource, as functions."""

    def __init__(self, schema: JSON) -> None:
        self.schema = schema
        self._prune = compile_pruner(schema, root=True)
        self._default = compile_defaulter(_bare_root(schema))
        self._checks = [
            check
            for check in (
                compile_check(_bare_root(schema)),
                compile_embedded_check(schema),
                compile_list_check(schema),
            )
            if check
        ]
        self._rules = compile_rules(schema)

    def prune(self, obj: JSON) -> None:
        """Remove unspecified fields in place; the root keeps apiVersion, kind and metadata."""
        if self._prune is not None:
            self._prune(obj)

    def default(self, obj: JSON) -> None:
        """Set defaults in place, and remove nulls that the schema does not allow."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: JSON, old: JSON | None = None) -> list[FieldError]:
        """Return the errors of an object.

        Args:
            obj: the object, pruned and defaulted.
            old: the object that it replaces: errors of what it has already are left out, and rules
                with ``oldSelf`` run.
        """
        errors = Report()
        try:
            self._check(obj, old, errors)
        except ExhaustedError as error:
            # Not errors.append, which would spend steps that are no longer left.
            return [*errors, error.error()]
        return errors

    def _check(self, obj: JSON, old: JSON | None, errors: Report) -> None:
        for check in self._checks:
            check(obj, "", errors)
        if old is not None and errors:
            ratchet = Ratchet(self.schema, obj, old)
            errors[:] = [error for error in errors if not ratchet.excuses(error)]
        if self._rules is None:
            return
        # Rules are compiled for the schema's types, and their cost is estimated within its limits;
        # values that violate either are not passed to them.
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(invalid("<nil>", None, _UNCHECKED))
            return
        self._rules(obj, old, errors)


def compile_schema(schema: JSON) -> CompiledSchema:
    """Compile an ``openAPIV3Schema`` in which :func:`validate_crd` found no errors.

    Raises:
        ValueError: a pattern or a rule cannot be compiled.
    """
    return CompiledSchema(schema)


def _bare_root(schema: JSON) -> JSON:
    """Return the schema with only the properties of the root's metadata to check.

    Its other keywords are skipped, because the server has checked metadata before.
    """
    properties = schema.get("properties") or {}
    if "metadata" not in properties:
        return schema
    metadata = {"type": "object", "properties": properties["metadata"].get("properties") or {}}
    return schema | {"properties": properties | {"metadata": metadata}}
