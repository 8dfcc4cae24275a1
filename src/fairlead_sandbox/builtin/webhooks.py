"""Defaults and validation of webhook configurations, with kube-apiserver's messages."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead_sandbox.resources.types import Strategy
from fairlead_sandbox.schema.errors import FieldError, duplicate, invalid, not_supported, required
from fairlead_sandbox.webhooks.hooks import GROUP


MUTATINGWEBHOOKCONFIGURATIONS = Resource(
    GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
VALIDATINGWEBHOOKCONFIGURATIONS = Resource(
    GROUP,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
_DEFAULTS: JSON = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
_SELECTORS = ("namespaceSelector", "objectSelector")
_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
# v1 of the API no longer takes the values Unknown and Some of v1beta1.
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_LONGEST_SECONDS = 30
"""Longest timeout of a webhook in seconds."""
_FORM = "; desired format: https://host[/path]"


class WebhookStrategy(Strategy):
    """Strategy of mutating and validating webhook configurations."""

    generation = True
    unconditional_update = False

    def __init__(self, *, mutating: bool) -> None:
        self._mutating = mutating

    def prepare_create(self, body: JSON) -> None:
        """Set the defaults of each webhook."""
        for hook in body.get("webhooks") or ():
            for name, value in _DEFAULTS.items():
                hook.setdefault(name, value)
            for name in _SELECTORS:
                hook.setdefault(name, {})
            if self._mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            service = (hook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Set the defaults of each webhook."""
        self.prepare_create(body)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of each webhook, and those of repeated names."""
        errors: list[FieldError] = []
        names: set[str] = set()
        for index, hook in enumerate(body.get("webhooks") or ()):
            path, name = f"webhooks[{index}]", hook.get("name") or ""
            errors += _check_name(path, name)
            errors += _check_hook(path, hook)
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        return errors


def _check_name(path: str, name: str) -> Iterator[FieldError]:
    if not name:
        yield required(f"{path}.name")
        return
    wrong = subdomain_errors(name)
    if wrong:
        yield invalid(f"{path}.name", name, "".join(wrong))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{path}.name", name, text)


def _check_hook(path: str, hook: JSON) -> Iterator[FieldError]:
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from _check_rule(f"{path}.rules[{index}]", rule)
    for name, choices in _CHOICES.items():
        if name in hook and hook[name] not in choices:
            yield not_supported(f"{path}.{name}", hook[name], choices)
    if "sideEffects" not in hook:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif hook["sideEffects"] not in _SIDE_EFFECTS:
        yield not_supported(f"{path}.sideEffects", hook["sideEffects"], _SIDE_EFFECTS)
    if not 1 <= hook.get("timeoutSeconds", 1) <= _LONGEST_SECONDS:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", hook["timeoutSeconds"], text)
    for name in _SELECTORS:
        try:
            LabelSelector.from_dict(hook.get(name) or {})
        except SelectorError as error:
            yield invalid(f"{path}.{name}", hook[name], str(error))
    yield from _check_versions(f"{path}.admissionReviewVersions", hook)
    yield from _check_client(f"{path}.clientConfig", hook.get("clientConfig") or {})


def _check_versions(path: str, hook: JSON) -> Iterator[FieldError]:
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        yield required(path, "must specify one of v1, v1beta1")
    elif not {"v1", "v1beta1"} & set(versions):
        text = "must include at least one of v1, v1beta1"
        yield invalid(path, versions, text)
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield duplicate(f"{path}[{index}]", version)


def _check_rule(path: str, rule: JSON) -> Iterator[FieldError]:
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        yield invalid(f"{path}.operations", operations, text)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for name, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or []
        if not values:
            yield required(f"{path}.{name}")
        if len(values) > 1 and "*" in values:
            text = f"if '*' is present, must not specify other {what}"
            yield invalid(f"{path}.{name}", values, text)
    if not rule.get("resources"):
        yield required(f"{path}.resources")
    if rule.get("scope", "*") not in _SCOPES:
        yield not_supported(f"{path}.scope", rule["scope"], _SCOPES)


def _check_client(path: str, client: JSON) -> Iterator[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    if url is not None:
        yield from _check_url(f"{path}.url", url)
    if service is not None:
        for name in ("name", "namespace"):
            if not service.get(name):
                yield required(f"{path}.service.{name}")
        if not 1 <= service.get("port", 443) <= 65535:
            text = "port is not valid: must be between 1 and 65535, inclusive"
            yield invalid(f"{path}.service.port", service["port"], text)
        if not (service.get("path") or "/").startswith("/"):
            yield invalid(f"{path}.service.path", service["path"], "must start with a '/'")
    if client.get("caBundle") and not _is_bundle(client["caBundle"]):
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        yield invalid(f"{path}.caBundle", "<bytes>", text)


def _check_url(path: str, url: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.netloc:
        yield invalid(path, "", f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        yield invalid(path, "<user>", "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _is_bundle(text: str) -> bool:
    try:
        # caBundle is PEM, in base64 because bytes are so in JSON.
        decoded = base64.b64decode(text, validate=True).decode()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=decoded)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError):
        return False
    return True
