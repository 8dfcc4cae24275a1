"""Claims that flags of a replica choose."""

from __future__ import annotations

from pathlib import Path

from tests.integration.portal.conftest import Ada, Provider
from tests.support.replicas import replica

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.resource import NAMESPACES


async def test_s1_flags_choose_the_claims_of_owner_and_groups(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    flags = (
        *(*provider.flags(), "--oidc-subject-claim", "oid"),
        *("--oidc-groups-claim", "roles", "--oidc-most-groups", "1"),
    )
    who = {"sub": "of this client alone", "oid": "ada", "groups": ["a", "b"]}
    async with replica(provider.config, tmp_path, "one", *flags) as one:
        provider.issuer.who = who | {"roles": ["a"]}
        await ada.sign_in(one)
        bound = await ada.bound(one)
        namespace = await provider.admin.get(NAMESPACES, bound["providerNamespace"])
        assert namespace.meta.annotations[ANNOTATION_AUTHOR] == f"{provider.issuer.url}/ada"
        provider.issuer.who = who | {"roles": ["a", "b"]}
        callback = await ada.to_callback(one)
        answered = await ada.browser.get(one.at(callback))
        assert answered.status == 401
        refusal = "claim roles has 2 names, more than the 1 of --oidc-most-groups"
        assert refusal in await answered.text()
