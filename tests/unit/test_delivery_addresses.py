"""Public addresses are reached, no others, in whatever form they come."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.delivery.addresses import MACHINE_FACTS, may_reach, parsed


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.215.14",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "169.253.255.255",
        "223.255.255.255",
        "168.63.129.15",
        "168.63.129.17",
        "2606:4700:4700::1111",
        "2a00:1450:4001::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_public_addresses_are_reached(address: str) -> None:
    assert may_reach(parsed(address), ())


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1"),  # noqa: S104
        *("172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1", "100.127.255.255"),
        *("192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255"),
        *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.2.3", "240.0.0.1"),
        *("255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
        *("::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
        *("2001::1", "2001:0:a9fe:a9fe::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1"),
        *("3fff::1", "100::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0"),
        *("fec0::1", "ff02::1", "5f00::1", "4000::1"),
        # Azure's, in a public range.
        *("168.63.129.16", "::ffff:168.63.129.16"),
    ],
)
def test_what_is_not_public_is_not_reached(address: str) -> None:
    assert not may_reach(parsed(address), ())


def test_nothing_is_reached_where_a_cloud_tells_a_machine_its_credentials() -> None:
    for network in MACHINE_FACTS:
        assert not may_reach(network[0], ())
        assert not may_reach(network[-1], ())


def test_what_is_allowed_is_reached_in_every_form() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")]

    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "fd00:1::7"):
        assert may_reach(parsed(address), allowed)
    for address in ("10.2.0.1", "::ffff:10.2.0.1", "fd00:2::7", "::1"):
        assert not may_reach(parsed(address), allowed)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_ipv6(address: IPv4Address) -> None:
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        assert may_reach(IPv6Address(prefix | int(address)), ()) is may_reach(address, ())


@given(st.ip_addresses())
def test_never_more_is_reached_than_python_calls_global(
    address: IPv4Address | IPv6Address,
) -> None:
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None

    assert not may_reach(address, ()) or (inner or address).is_global
