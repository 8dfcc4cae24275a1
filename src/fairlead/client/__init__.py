"""Speaking to one Kubernetes API server: transport, authentication, discovery, verbs, watches.

A :class:`Client` is a value: it owns its session, its credentials and its discovery, and any
number of them live in one process.
"""

from __future__ import annotations

from fairlead.client.client import Client
from fairlead.client.config import ClusterConfig, ExecPlugin, Impersonation
from fairlead.client.discovery import Discovery, GroupVersions
from fairlead.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
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
from fairlead.client.transport import RequestMetrics, RetryPolicy, Timeouts
from fairlead.client.wire import ObjectList, WatchEvent


__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
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
    "parse_kubeconfig",
]
