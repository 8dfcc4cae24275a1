"""When a webhook server's certificates are made anew, and that nobody is refused meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from fairlead.api.certificates import CA_LIFE
from fairlead.runtime.admission import certificates
from fairlead.runtime.admission.certificates import (
    AUTHORITY,
    AUTHORITY_KEY,
    CERTIFICATE,
    FORMER,
    KEY,
    LIFE,
    NEXT,
    bundle,
    decoded,
    encoded,
    renewed,
)


NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("hooks.default.svc", "127.0.0.1")


def fresh() -> dict[str, str]:
    return renewed({}, HOSTS, NOW, published=False)


def trusted(data: dict[str, str], old_bundle: str) -> bool:
    """Whether who trusts this bundle accepts the certificate."""
    leaf = x509.load_pem_x509_certificate(data[CERTIFICATE].encode())
    for authority in x509.load_pem_x509_certificates(old_bundle.encode()):
        try:
            leaf.verify_directly_issued_by(authority)
        except Exception:  # noqa: BLE001
            continue
        return True
    return False


def test_what_is_in_order_stays() -> None:
    data = fresh()
    assert renewed(data, HOSTS, NOW + LIFE / 2, published=True) == data
    assert decoded(encoded(data)) == data
    assert trusted(data, bundle(data))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="nothing"),
        pytest.param({AUTHORITY: "odd"}, id="odd authority"),
        pytest.param({AUTHORITY_KEY: ""}, id="no key"),
        pytest.param({CERTIFICATE: "-----BEGIN CERTIFICATE-----"}, id="odd certificate"),
        pytest.param({KEY: fresh()[KEY]}, id="another's key"),
        pytest.param({AUTHORITY: fresh()[AUTHORITY]}, id="another authority"),
    ],
)
def test_what_is_no_use_is_made_anew(change: dict[str, str]) -> None:
    data = renewed({**fresh(), **change} if change else {}, HOSTS, NOW, published=False)
    assert renewed(data, HOSTS, NOW, published=True) == data
    assert trusted(data, bundle(data))


def test_a_certificate_is_renewed_under_the_same_authority() -> None:
    data = fresh()
    later = renewed(data, HOSTS, NOW + LIFE * 0.7, published=True)
    assert later[CERTIFICATE] != data[CERTIFICATE]
    assert bundle(later) == bundle(data)
    assert trusted(later, bundle(data))


def test_other_hosts_need_another_certificate() -> None:
    data = fresh()
    other = renewed(data, ("elsewhere.svc",), NOW, published=True)
    assert other[CERTIFICATE] != data[CERTIFICATE]
    assert bundle(other) == bundle(data)


def test_an_authority_is_followed_by_one_that_is_trusted_already() -> None:
    data, late = fresh(), NOW + CA_LIFE * 0.7
    first = renewed(data, HOSTS, late, published=True)
    assert first[AUTHORITY] == data[AUTHORITY]
    assert first[NEXT] in bundle(first)
    waiting = renewed(first, HOSTS, late, published=False)
    assert waiting == first
    second = renewed(first, HOSTS, late, published=True)
    assert second[AUTHORITY] == first[NEXT]
    assert second[FORMER] == data[AUTHORITY]
    assert NEXT not in second
    # Who has not read the last bundle yet trusts it all the same.
    assert trusted(second, bundle(first))
    end = renewed(second, HOSTS, NOW + CA_LIFE + timedelta(days=1), published=True)
    assert FORMER not in end


def test_an_authority_that_has_ended_is_replaced_at_once() -> None:
    data = fresh()
    late = renewed(data, HOSTS, NOW + CA_LIFE + timedelta(days=1), published=False)
    assert late[AUTHORITY] != data[AUTHORITY]
    assert trusted(late, bundle(late))


def test_what_others_put_into_the_secret_goes() -> None:
    assert renewed({**fresh(), "more": "x"}, HOSTS, NOW, published=True).keys() == fresh().keys()


def test_data_that_is_no_text_counts_as_absent() -> None:
    assert decoded({CERTIFICATE: "/w==", KEY: "?", AUTHORITY: "YQ=="}) == {AUTHORITY: "a"}
    assert certificates.bundle({}) == ""
