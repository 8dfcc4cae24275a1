"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click


if TYPE_CHECKING:
    from fairlead.client import ClusterConfig


import os
from pathlib import Path

from fairlead.api.flags import DeclaredFlag, declarations, parse_seconds, read
from fairlead.api.label_names import is_label, subdomain_errors
from fairlead.api.quantities import parse_quantity
from fairlead.cli import completion


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class _Name(click.ParamType[str]):
    """Name of an object or a namespace; an empty one stands for a default that is empty too."""

    name = "text"

    def __init__(self, is_name: Callable[[str], bool], rule: str) -> None:
        self._is_name = is_name
        self._rule = rule

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value and param is not None and not param.required and param.default == "":
            return value
        if not self._is_name(value):
            self.fail(f"{value!r} is not {self._rule}", param, ctx)
        return value


OBJECT_NAME = _Name(
    lambda text: not subdomain_errors(text),
    "a Kubernetes name: use lower-case letters, digits, '-' and '.', at most 253",
)
NAMESPACE = _Name(
    is_label, "the name of a namespace: use lower-case letters, digits and '-', at most 63"
)


_BINDING_KINDS = frozenset({"apiservicebinding", "clusterbinding", "binding", "connection"})


def _is_binding_name(text: str) -> bool:
    kind, _, rest = text.partition("/")
    parts = (rest if kind in _BINDING_KINDS and rest else text).split("/")
    return len(parts) <= 2 and not any(subdomain_errors(part) for part in parts)


BINDING_NAME = _Name(
    _is_binding_name,
    "the name of a binding: use NAME, or clusterbinding/NAME, binding/NAMESPACE/NAME and"
    " connection/NAME for those of kbind v2",
)


class _Image(click.ParamType[str]):
    """Reference of an image; registries have rules of their own for its parts."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value or not value.isprintable() or " " in value:
            self.fail(f"{value!r} is not the name of an image, such as fairlead:1.0", param, ctx)
        return value


IMAGE = _Image()


class _Duration(click.ParamType[float]):
    """Duration such as 90s, 2m or 1h30m, above zero; the value is its seconds."""

    name = "text"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return parse_seconds("", value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = _Duration()


class _NamespacedName(click.ParamType[str]):
    """Namespace and name of an object; "" where there is none."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        namespace, _, name = value.partition("/")
        if value and not (is_label(namespace) and not subdomain_errors(name)):
            self.fail(f"{value!r} is not NAMESPACE/NAME, such as default/app", param, ctx)
        return value


NAMESPACED_NAME = _NamespacedName()


class _APIName(click.ParamType[str]):
    """Name of an API, as that of its CustomResourceDefinition."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        plural, _, group = value.partition(".")
        if not (is_label(plural) and group) or subdomain_errors(group):
            self.fail(f"{value!r} is not PLURAL.GROUP, such as widgets.example.org", param, ctx)
        return value


API_NAME = _APIName()


def cluster_options(function: F) -> F:
    """Add ``--kubeconfig`` and ``--context``, whose values go to :func:`cluster_config`."""
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        shell_complete=completion.files,
        help="Path of the kubeconfig; default: $KUBECONFIG, then ~/.kube/config, then the "
        "ServiceAccount of the Pod.",
    )
    context = click.option(
        "--context",
        metavar="NAME",
        shell_complete=completion.contexts,
        help="Context of the kubeconfig to use; default: its current one.",
    )
    return kubeconfig(context(function))


def cluster_config(kubeconfig: str | None, context: str | None) -> ClusterConfig:
    """Return the cluster that the shared options name; the client's logs go to standard error.

    Raises:
        fairlead.client.ConfigError: no kubeconfig is found, or it cannot be used.
    """
    from fairlead.client import load_config

    log_to_stderr()
    return load_config(kubeconfig, context)


def log_to_stderr() -> None:
    """Send the logs of libraries to standard error; long-running commands set up more."""
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


def timeout_option(default: str, waits: str) -> Callable[[F], F]:
    """Return ``--timeout``; ``waits`` ends the sentence "How long to wait" of its help."""
    return click.option(
        "--timeout",
        "seconds",
        type=DURATION,
        default=default,
        show_default=True,
        metavar="DURATION",
        help=f"How long to wait {waits}, for example 90s or 2m.",
    )


def yes_option(function: F) -> F:
    """Add ``--yes``, for commands that ask before they change much."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def namespace_option(text: str) -> Callable[[F], F]:
    """Return the option ``-n`` with ``text`` as its help."""
    return click.option(
        "-n",
        "--namespace",
        default="",
        type=NAMESPACE,
        metavar="NAMESPACE",
        shell_complete=completion.names(completion.namespaces),
        help=text,
    )


def json_option(function: F) -> F:
    """Add ``--json``, for one JSON document on standard output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(
        function
    )


def konnector_namespace_option(function: F) -> F:
    """Add ``--namespace``, the konnector's namespace with the kubeconfig Secrets."""
    # Imported here: a sandbox takes other options of this module, and starts without a konnector.
    from fairlead.konnector.options import DEFAULT_NAMESPACE

    return click.option(
        "--namespace",
        default=DEFAULT_NAMESPACE,
        type=NAMESPACE,
        show_default=True,
        help="The konnector's namespace.",
    )(function)


def flag_options(
    options: Callable[..., object], *, only: str = "", without: Collection[str] = ()
) -> Callable[[F], F]:
    """Return the options of a command for the flags of a program's options or manifests.

    Args:
        options: the struct or function that declares the flags.
        only: the program to which the flags of a command for several programs belong.
        without: names of values whose flags are left out.
    """

    def decorate(function: F) -> F:
        # Decorators work from the last to the first, and the help has the options in this order.
        for flag in reversed(list(declarations(options))):
            prefix = f"{only} only{', required' * flag.required}: " if only else ""
            if flag.name not in without:
                function = _option(flag, prefix + flag.help)(function)
        return function

    return decorate


def options_of(options: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Return a program's options of the values of their flags.

    Raises:
        click.UsageError: a value is refused; the message names the flag.
    """
    try:
        return read(options, values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _option(declaration: DeclaredFlag, text: str) -> Callable[[F], F]:
    flag, kind, default = declaration.flag, declaration.type, declaration.default
    origin = get_origin(kind) or kind
    several = isinstance(origin, type) and not issubclass(origin, str | bytes)
    several = several and issubclass(origin, Collection)
    switch = kind is bool and not (flag.metavar or flag.choices)
    value: Any = bool if kind is bool and flag.metavar else None
    if flag.names:
        value = {"object": OBJECT_NAME, "namespace": NAMESPACE}[flag.names]
    if choices := flag.choices or (get_args(kind) if origin is Literal else ()):
        value = click.Choice(choices, case_sensitive=not all(map(str.islower, choices)))
    elif Path in get_args(kind) or kind is bytes:
        value = click.Path(exists=True, dir_okay=False, path_type=Path)
    elif flag.least is not None or flag.most is not None:
        bounds: Any = click.IntRange if kind is int else click.FloatRange
        value = bounds(flag.least, flag.most)
    return click.option(
        *declaration.names,
        declaration.name,
        type=value,
        default=None if default == () else default,
        show_default=default not in (None, "", ()),
        is_flag=switch or None,
        multiple=several,
        metavar=flag.metavar,
        envvar=flag.environment or None,
        show_envvar=bool(flag.environment),
        hidden=flag.hidden,
        help=text,
    )


def parse_size(text: str, *, option: str) -> int:
    """Return the bytes of a size such as 64Mi, of 1Mi at least.

    Raises:
        click.UsageError: the text is no size, or less than 1Mi.
    """
    try:
        size = int(parse_quantity(text))
    except ValueError:
        raise click.UsageError(f"{option}: {text!r} is not a size: use for example 64Mi") from None
    if size < 1 << 20:
        raise click.UsageError(f"{option}: {text} is too small: the minimum is 1Mi")
    return size


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, also where there was one before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(path, "w", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
        # The mode in open applies to a new file; an existing one still has its own.
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
