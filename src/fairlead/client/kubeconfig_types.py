"""Types of kubeconfig files (``clientcmd/api/v1`` of client-go), and their decoder."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api import yamltext
from fairlead.api.decoding import field_message
from fairlead.client import limits
from fairlead.client.errors import ConfigError


class Extension(msgspec.Struct):
    """``NamedExtension``; only the program that its name stands for knows the content."""

    name: str
    extension: Any = None


class ClusterFields(msgspec.Struct, rename="kebab"):
    """``cluster`` of a clusters entry."""

    server: str = ""
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None
    extensions: list[Extension] | None = None


class ExecEnv(msgspec.Struct):
    """One environment variable of an exec plugin."""

    name: str
    value: str = ""


class ExecFields(msgspec.Struct, rename="camel"):
    """``exec`` of a user."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[ExecEnv] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserFields(msgspec.Struct, rename="kebab"):
    """``user`` of a users entry."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    auth_provider: Any = None
    exec_: ExecFields | None = msgspec.field(default=None, name="exec")


class ContextFields(msgspec.Struct):
    """``context`` of a contexts entry."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class Named(msgspec.Struct):
    """An entry of one of the three lists."""

    name: str


class NamedCluster(Named):
    """A clusters entry."""

    cluster: ClusterFields


class NamedUser(Named):
    """A users entry."""

    user: UserFields


class NamedContext(Named):
    """A contexts entry."""

    context: ContextFields


class Kubeconfig(msgspec.Struct, rename="kebab"):
    """One file, or several merged."""

    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


def decode_kubeconfig(data: bytes, *, where: str, aliases: bool) -> Kubeconfig:
    """Decode a kubeconfig from a file's bytes, YAML or JSON.

    Args:
        data: the bytes.
        where: the name of the kubeconfig in messages.
        aliases: whether YAML aliases are allowed; a small text of aliases expands to a huge value.

    Raises:
        ConfigError: the bytes are no kubeconfig in YAML or JSON; the message quotes none of them.
    """
    try:
        content = yamltext.load(data.decode(), aliases=aliases, max_depth=limits.KUBECONFIG_LEVELS)
    except (yamltext.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where} {yamltext.refusal(error)}") from None
    if content is None:
        return Kubeconfig()
    try:
        return msgspec.convert(content, Kubeconfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where} is not a kubeconfig: {field_message(error)}") from None
