"""Problem and reason of a failed look at a provider."""

from __future__ import annotations

from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.client import (
    AnswerTooLarge,
    CertificateRefused,
    ClientError,
    ConfigError,
    Unauthorized,
)


class NotServedThereError(ClientError):
    """The provider does not serve a bound kind."""


def fault_of(error: Exception, patience: float) -> tuple[str, str]:
    """Return the problem and its reason for a failed request to a provider.

    ``patience`` is the seconds that it had to answer.
    """
    match error:
        case Unauthorized():
            reason = "CredentialsRefused"
            return KUBE_BIND.what(reason) + error.clock_hint, reason
        case CertificateRefused():
            return str(error), "CertificateRefused"
        case ConfigError():
            return str(error), "KubeconfigSecretInvalid"
        case AnswerTooLarge():
            return str(error), "AnswerTooLarge"
        case NotServedThereError():
            return str(error), "SchemaNotFound"
        # Errors of the client may be timeouts too, and say more.
        case TimeoutError() if not isinstance(error, ClientError):
            return f"the provider did not answer within {patience:g} s", "NotReached"
    return str(error), "NotReached"
