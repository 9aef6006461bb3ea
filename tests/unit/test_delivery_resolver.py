"""Look-ups of names: those that hang take neither the others' time nor that of addresses."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest

from executor.delivery.places import Busy
from executor.delivery.resolver import MOST_LOOK_UPS, MOST_OF_ONE_DOMAIN, Resolver

T = TypeVar("T")


class NameServer:
    """Knows one address; says nothing about names with `silent` in them until it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if "silent" in host:
            self.let_go.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return ["192.0.2.1"]


@pytest.fixture
def server() -> Iterator[NameServer]:
    server = NameServer()
    yield server
    server.let_go.set()


async def hang(resolver: Resolver, server: NameServer, hosts: list[str], count: int) -> None:
    """Have `count` of these hosts asked for and hang."""
    for host in hosts:
        asyncio.ensure_future(resolver(host)).add_done_callback(lambda done: done.exception())
    while len(server.asked) < count:
        await asyncio.sleep(0.01)


async def until_it_is_free(resolver: Resolver, host: str) -> Sequence[str]:
    while True:
        with suppress(Busy):
            return await resolver(host)


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    async def with_limit() -> T:
        async with asyncio.timeout(60):
            return await scenario()

    return asyncio.run(with_limit())


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
    ],
)
def test_an_address_is_not_looked_up_however_it_is_written(
    server: NameServer, host: str, address: str
) -> None:
    assert run(lambda: Resolver(server)(host)) == [address]
    assert server.asked == []


def test_who_asks_for_a_name_that_is_being_looked_up_shares_the_answer(server: NameServer) -> None:
    resolver = Resolver(server)

    async def ask() -> list[list[str]]:
        return [list(each) for each in await asyncio.gather(*map(resolver, ["shop.example"] * 9))]

    assert run(ask) == [["192.0.2.1"]] * 9
    assert server.asked == ["shop.example"]


def test_a_domain_that_hangs_leaves_look_ups_to_the_others(server: NameServer) -> None:
    resolver = Resolver(server, patience=0.1)
    silent = [f"{number}.silent.example" for number in range(MOST_LOOK_UPS * 2)]

    async def ask() -> None:
        await hang(resolver, server, silent, MOST_OF_ONE_DOMAIN)

        assert await resolver("shop.example") == ["192.0.2.1"]
        with pytest.raises(Busy):
            await resolver("more.silent.example")

    run(ask)
    assert len(server.asked) == MOST_OF_ONE_DOMAIN + 1


def test_who_finds_all_look_ups_taken_gives_up_before_long(server: NameServer) -> None:
    resolver = Resolver(server, patience=0.1)
    silent = [f"www.silent{number}.example{number}" for number in range(MOST_LOOK_UPS)]

    async def ask() -> None:
        await hang(resolver, server, silent, MOST_LOOK_UPS)

        with pytest.raises(Busy):
            await resolver("shop.example")
        assert await resolver("127.0.0.1") == ["127.0.0.1"]
        server.let_go.set()
        assert await until_it_is_free(resolver, "shop.example") == ["192.0.2.1"]

    run(ask)


def test_a_name_that_nobody_answers_for_fails_at_once_and_is_asked_for_again_later(
    server: NameServer,
) -> None:
    resolver = Resolver(server, silent_after=0.1, rest=2)

    async def fails() -> float:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(socket.gaierror):
            await resolver("silent.example")
        return asyncio.get_running_loop().time() - begun

    async def ask() -> None:
        await hang(resolver, server, ["silent.example"], 1)
        await asyncio.sleep(0.15)
        await fails()
        server.let_go.set()
        await fails()
        assert len(server.asked) == 1
        while len(server.asked) < 2:
            await asyncio.sleep(0.05)
            await fails()

    run(ask)


def test_a_look_up_that_hangs_does_not_keep_the_process_from_its_end() -> None:
    program = """
import asyncio, time
from executor.delivery.resolver import Resolver

async def main():
    try:
        await asyncio.wait_for(Resolver(lambda host: time.sleep(60))("silent.example"), 0.1)
    except TimeoutError:
        print("gave up")

asyncio.run(main())
"""

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout == "gave up\n"
