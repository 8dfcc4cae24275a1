"""What is taken for a challenge of SCRAM-SHA-256."""

from __future__ import annotations

import pytest

from fairlead.postgres.database.connections.rounds import Challenge, read_challenge


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(b"r=ours+theirs,s=c2FsdA==,i=4096", Challenge(b"salt", 4096), id="usual"),
        pytest.param(b"r=ours!-~,s=c2FsdA==,i=1", Challenge(b"salt", 1), id="one-round"),
        pytest.param(
            b"r=ours+,s=c2FsdA==,i=2147483647", Challenge(b"salt", 2147483647), id="most-rounds"
        ),
        pytest.param(b"r=ours,s=c2FsdA==,i=4096", None, id="no-nonce-of-the-server"),
        pytest.param(b"r=other+,s=c2FsdA==,i=4096", None, id="of-another-client"),
        pytest.param(b"r=ours+,i=4096,s=c2FsdA==", None, id="order"),
        pytest.param(b"r=ours+,s=c2FsdA==", None, id="no-rounds"),
        pytest.param(b"r=ours+,s=c2FsdA==,i=0", None, id="zero-rounds"),
        pytest.param(b"r=ours+,s=c2FsdA==,i=-1", None, id="negative-rounds"),
        pytest.param(b"r=ours+,s=c2FsdA==,i=0x10", None, id="hexadecimal-rounds"),
        pytest.param(b"r=ours+,s=c2FsdA==,i=" + b"9" * 1000, None, id="rounds-without-end"),
        pytest.param(b"r=ours+,s=c2FsdA=,i=4096", None, id="broken-salt"),
        pytest.param(b"r=ours+,s=,i=4096", None, id="no-salt"),
        pytest.param(b"r=ours+,s=c2FsdA==,i=4096,x=1", None, id="more"),
        pytest.param(b"r=ours+,s=c2FsdA==,i=4096\n", None, id="line-break"),
        pytest.param(b"m=x,r=ours+,s=c2FsdA==,i=4096", None, id="mandatory-extension"),
        pytest.param(b"e=other-error", None, id="error"),
        pytest.param(b"\xff\0", None, id="no-text"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_challenges(said: bytes, expected: Challenge | None) -> None:
    if expected is None:
        with pytest.raises(ValueError):
            read_challenge(said, b"ours")
    else:
        assert read_challenge(said, b"ours") == expected
