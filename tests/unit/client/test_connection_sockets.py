"""Sockets whose descriptor the loop has closed without a word."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fairlead.client.connection import Socket, Sockets


ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))


@contextmanager
def strangers(number: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two that are connected, one of them with a descriptor that was closed a moment ago."""
    with ExitStack() as stack:
        while True:
            ends = socket.socketpair()
            for end in ends:
                stack.enter_context(end)
            if number in {end.fileno() for end in ends}:
                yield ends
                return


def reset(made: Socket) -> int:
    """What a loop does to a connection that its server resets as it begins."""
    number = made.fileno()
    os.close(number)
    return number


def talk(ends: tuple[socket.socket, socket.socket]) -> bytes:
    ends[0].sendall(b"x")
    return ends[1].recv(1)


def test_a_descriptor_that_is_somebody_elses_is_not_closed() -> None:
    made = Sockets().make(ADDRESS)
    with strangers(reset(made)) as ends:
        del made
        assert talk(ends) == b"x"


async def test_a_descriptor_that_is_somebody_elses_is_not_shut_down() -> None:
    sockets = Sockets()
    made = sockets.make(ADDRESS)
    with strangers(reset(made)) as ends:
        await sockets.close()
        assert talk(ends) == b"x"


def test_a_descriptor_of_ones_own_is_closed() -> None:
    made = Sockets().make(ADDRESS)
    number = made.fileno()
    assert made.open
    made.close()
    assert not made.open
    with strangers(number) as ends:
        assert talk(ends) == b"x"
