"""Label and field selectors of list, watch and deletecollection requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.api.selectors import FieldSelector, LabelSelector, SelectorError
from fairlead_sandbox import errors
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Record


class SelectionPredicate(NamedTuple):
    """The selectors of a request for one resource."""

    type: ResourceType
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None

    @property
    def everything(self) -> bool:
        """Whether the request has no selectors."""
        return self.labels is None and self.fields is None

    def matches(self, record: Record) -> bool:
        """Whether the selectors match the object."""
        if self.labels is not None and not self.labels.matches(record.labels):
            return False
        return self.fields is None or self._fields_match(self.fields, record)

    def _fields_match(self, fields: FieldSelector, record: Record) -> bool:
        # Most field selectors name the object, and its key is known without decoding it.
        values = {"metadata.name": record.key.name, "metadata.namespace": record.key.namespace}
        if all(term.field in values for term in fields.terms):
            return fields.matches(values.get)
        body = self.type.to_dict(record)
        return fields.matches(lambda path: self.type.strategy.field(body, path))


def parse_selection(type_: ResourceType, query: Mapping[str, str]) -> SelectionPredicate:
    """Return the selectors of a request's query.

    Raises:
        StatusError: 400, a selector cannot be read or names an unknown field.
    """
    try:
        labels = LabelSelector.parse(query.get("labelSelector", ""))
        fields = FieldSelector.parse(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None
    for term in fields.terms:
        _check_field(type_, term.field)
    return SelectionPredicate(
        type_,
        labels if labels.requirements else None,
        fields if fields.terms else None,
    )


def _check_field(type_: ResourceType, field: str) -> None:
    if field in {"metadata.name", "metadata.namespace"}:
        return
    if field in type_.strategy.selectable_fields:
        return
    if type_.custom or type_.strategy.selectable_fields:
        # kube-apiserver has two messages: this one for kinds with selectors of their own and for
        # custom resources, the one below for all other built-in kinds.
        raise errors.bad_request(f"field label not supported: {field}")
    names = '"metadata.name", "metadata.namespace"'
    raise errors.bad_request(f'"{field}" is not a known field selector: only {names}')
