from __future__ import annotations

from typing import Any

import pytest
import yaml

from fairlead.client import ClusterConfig, parse_kubeconfig
from fairlead.provider.credentials import consumer_kubeconfig
from fairlead.provider.options import InviteOptions


def _pem(name: str) -> bytes:
    return f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n".encode()


OWN = {"server": "https://own:6443", "certificate_authority": _pem("own")}


def made(config: dict[str, Any], **options: Any) -> ClusterConfig:
    data = consumer_kubeconfig(
        ClusterConfig(client_key=b"secret", **config),
        InviteOptions(**options),
        namespace="ns",
        token="t0ken",
        ca=_pem("cluster"),
    )
    assert b"secret" not in data
    return parse_kubeconfig(data)


def test_a_key_beside_the_ca_goes_to_no_consumer() -> None:
    key = b"-----BEGIN EC PRIVATE KEY-----\nkey\n-----END EC PRIVATE KEY-----\n"
    result = made(OWN | {"certificate_authority": key + _pem("own")})
    assert result.certificate_authority == _pem("own")


def test_it_holds_the_token_and_the_namespace() -> None:
    config = made(OWN)
    assert (config.token, config.namespace) == ("t0ken", "ns")
    assert config.client_key == b""


@pytest.mark.parametrize(
    ("config", "options", "server", "ca", "name"),
    [
        pytest.param(OWN, {}, "https://own:6443", _pem("own"), "", id="the provider's own"),
        pytest.param(
            {"server": "https://own"},
            {},
            "https://own",
            _pem("cluster"),
            "",
            id="the cluster's CA",
        ),
        pytest.param({"server": "http://own"}, {}, "http://own", b"", "", id="nothing to verify"),
        pytest.param(
            OWN,
            {"external_address": "https://out", "external_ca": _pem("out")},
            "https://out",
            _pem("out"),
            "",
            id="external",
        ),
        pytest.param(
            OWN | {"tls_server_name": "inner"},
            {"external_address": "https://out"},
            "https://out",
            _pem("own"),
            "",
            id="the inner name is not for outside",
        ),
        pytest.param(
            OWN | {"tls_server_name": "inner"},
            {},
            "https://own:6443",
            _pem("own"),
            "inner",
            id="name",
        ),
        pytest.param(
            OWN,
            {"external_server_name": "outer"},
            "https://own:6443",
            _pem("own"),
            "outer",
            id="external name",
        ),
    ],
)
def test_server_and_trust(
    config: dict[str, Any], options: dict[str, Any], server: str, ca: bytes, name: str
) -> None:
    result = made(config, **options)
    assert result.server == server
    assert result.certificate_authority == ca
    assert result.tls_server_name == name
    assert not result.insecure_skip_tls_verify


def test_it_is_written_as_it_always_was() -> None:
    # Other bytes would be a change of every consumer's Secret at its next invitation.
    token = "eyJ" + 300 * "aZ9_"
    config = ClusterConfig(server="https://own:6443", certificate_authority=400 * _pem("own"))
    data = consumer_kubeconfig(config, InviteOptions(), namespace="007", token=token, ca=b"")
    assert data.decode() == yaml.safe_dump(yaml.safe_load(data), sort_keys=False)
