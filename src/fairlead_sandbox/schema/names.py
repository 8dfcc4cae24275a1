"""Checks of Kubernetes names: DNS labels and subdomains."""

from __future__ import annotations

import re


# The two spaces after a comma in the messages below stand in Kubernetes' messages too.
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1123 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_label_1035 = re.compile(_LABEL_1035)
_label_1123 = re.compile(_LABEL_1123)
_subdomain = re.compile(_SUBDOMAIN)


def dns1035_label(text: str) -> str:
    """Return the error of an RFC 1035 label; "" for a valid one."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    if _label_1035.fullmatch(text):
        return ""
    return (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
        f"'abc-123', regex used for validation is '{_LABEL_1035}')"
    )


def dns1123_label(text: str) -> str:
    """Return the error of an RFC 1123 label; "" for a valid one."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    if _label_1123.fullmatch(text):
        return ""
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        f"regex used for validation is '{_LABEL_1123}')"
    )


def dns1123_subdomain(text: str) -> str:
    """Return the error of an RFC 1123 subdomain; "" for a valid one."""
    if len(text) > 253:
        return "must be no more than 253 characters"
    if _subdomain.fullmatch(text):
        return ""
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
        f"regex used for validation is '{_SUBDOMAIN}')"
    )
