"""The client of one Kubernetes API server.

The input is a kubeconfig, or the ServiceAccount of the Pod (``loading``, ``kubeconfig``), as a
:class:`ClusterConfig`; and a verb with a resource and a body. ``wire`` checks and encodes the
request, ``transport`` sends it with a credential (``credentials``) over a ``connection``, and
sends it again where the server asks for that. The output is decoded objects, lists, events of a
watch, or one of the typed ``errors``, each with one clear line. ``outages`` notes when a
server is away, and tells when it is back. ``bounds`` are on what a server may answer, and
``caution`` keeps a client from addresses where a stranger has named the server. ``discovery``
knows what the server serves, and ``lookups`` tells an object that is not there from one that could
not be looked for.

A :class:`Client` is a value: it owns its session, its credentials and its discovery, and any
number of them live in one process. Source: the Kubernetes API
(https://kubernetes.io/docs/reference/using-api/).
"""

from __future__ import annotations

from fairlead.client.bounds import Bounds
from fairlead.client.caution import AddressRefused, Caution
from fairlead.client.client import Client
from fairlead.client.config import ClusterConfig, ExecPlugin, Impersonation
from fairlead.client.discovery import Discovery, GroupVersions
from fairlead.client.errors import (
    AlreadyExists,
    AnswerTooLarge,
    ApiError,
    BadRequest,
    CertificateRefused,
    ClientError,
    ConfigError,
    Conflict,
    ConnectionFailed,
    Fenced,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    NotServed,
    RequestTooLarge,
    ServerError,
    TooManyRequests,
    Unauthorized,
    UnexpectedAnswer,
    UnsupportedMediaType,
)
from fairlead.client.kubeconfig import parse_kubeconfig
from fairlead.client.loading import load_config
from fairlead.client.metrics import RequestMetrics
from fairlead.client.outages import Outages, outages_of
from fairlead.client.transport import RetryPolicy, Timeouts
from fairlead.client.wire import ObjectList, WatchEvent


__all__ = [
    "AddressRefused",
    "AlreadyExists",
    "AnswerTooLarge",
    "ApiError",
    "BadRequest",
    "Bounds",
    "Caution",
    "CertificateRefused",
    "Client",
    "ClientError",
    "ClusterConfig",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "Discovery",
    "ExecPlugin",
    "Fenced",
    "Forbidden",
    "Gone",
    "GroupVersions",
    "Impersonation",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "NotServed",
    "ObjectList",
    "Outages",
    "RequestMetrics",
    "RequestTooLarge",
    "RetryPolicy",
    "ServerError",
    "Timeouts",
    "TooManyRequests",
    "Unauthorized",
    "UnexpectedAnswer",
    "UnsupportedMediaType",
    "WatchEvent",
    "load_config",
    "outages_of",
    "parse_kubeconfig",
]
