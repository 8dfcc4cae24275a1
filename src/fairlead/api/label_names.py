"""Validation of names, label keys and label values, with the messages of Kubernetes."""

from __future__ import annotations

import re


# Names have 63 characters at most and prefixes 253 (RFC 1123):
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set.
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# The texts are those of k8s.io/apimachinery, pkg/util/validation, double blanks included.
_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def qualified_name_errors(value: str) -> list[str]:
    """Return the errors in a label key or another qualified name; [] if it is valid."""
    prefix, slash, name = value.rpartition("/")
    errors: list[str] = []
    if slash:
        # Kubernetes tells of several slashes with a text of its own, and of nothing else then.
        if "/" in prefix:
            return [
                "a qualified name "
                + _NAME_TEXT.removeprefix("name part ")[:-1]
                + ") with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        if not prefix:
            errors.append("prefix part must be non-empty")
        elif len(prefix) > 253:
            errors.append("prefix part must be no more than 253 characters")
        if prefix and not _SUBDOMAIN.fullmatch(prefix):
            errors.append("prefix part " + _SUBDOMAIN_TEXT)
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 characters")
    # Also for an empty name, which has both errors in Kubernetes.
    if not _NAME.fullmatch(name):
        errors.append(_NAME_TEXT)
    return errors


def label_value_errors(value: str) -> list[str]:
    """Return the errors in a label's value; [] if it is valid."""
    errors: list[str] = []
    if len(value) > 63:
        errors.append("must be no more than 63 characters")
    if value and not _NAME.fullmatch(value):
        errors.append(_VALUE_TEXT)
    return errors


def is_label(value: str) -> bool:
    """Whether a text is a DNS label, the form of namespaces' names."""
    return len(value) <= 63 and "." not in value and _SUBDOMAIN.fullmatch(value) is not None


def subdomain_errors(value: str) -> list[str]:
    """Return the errors in a DNS subdomain, the form of most objects' names; [] if it is valid."""
    errors = ["must be no more than 253 characters"] if len(value) > 253 else []
    return errors if _SUBDOMAIN.fullmatch(value) else [*errors, _SUBDOMAIN_TEXT]
