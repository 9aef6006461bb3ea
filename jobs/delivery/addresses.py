"""Which addresses a delivery may reach: public ones, and what the operator allows besides."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Not globally reachable, by the registries of special addresses; `ipaddress` of Python 3.11 lacks
# some. https://www.iana.org/assignments/iana-ipv4-special-registry
_SPECIAL_V4: Final = tuple(
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Of a public range, but Azure's own: its hosts answer there, to their machines alone.
        # https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
        "168.63.129.16/32",
    )
)
# https://www.iana.org/assignments/iana-ipv6-special-registry. 2001::/23 holds Teredo, and 2002::/16
# is 6to4: both carry IPv4 addresses to relays that hardly anybody runs any more.
_PUBLIC_V6: Final = IPv6Network("2000::/3")
_SPECIAL_V6: Final = tuple(
    IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
# https://www.rfc-editor.org/rfc/rfc6052: how a network without IPv4 reaches IPv4.
_NAT64: Final = IPv6Network("64:ff9b::/96")

MACHINE_FACTS: Final[Sequence[Network]] = (
    # AWS, Azure, Google, Oracle, OpenStack: 169.254.169.254. AWS for containers: 169.254.170.2, .23
    # https://www.rfc-editor.org/rfc/rfc3927
    IPv4Network("169.254.0.0/16"),
    # https://www.rfc-editor.org/rfc/rfc4291#section-2.5.6, OpenStack: fe80::a9fe:a9fe
    IPv6Network("fe80::/10"),
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html, and of
    # EKS fd00:ec2::23
    IPv6Network("fd00:ec2::/32"),
    # https://cloud.google.com/compute/docs/metadata/querying-metadata
    IPv6Network("fd20:ce::254/128"),
    # https://docs.oracle.com/en-us/iaas/Content/Compute/Tasks/gettingmetadata.htm
    IPv6Network("fd00:c1::a9fe:a9fe/128"),
    # https://docs.oracle.com/en/cloud/cloud-at-customer/occ-get-started/
    IPv4Network("192.0.0.192/32"),
    # https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
    IPv4Network("100.100.100.200/32"),
    # See above.
    IPv4Network("168.63.129.16/32"),
)
"""Where clouds tell a machine about itself, often with credentials."""


def parsed(text: str) -> Address:
    """An address as the resolver writes it, without the zone of a link-local one."""
    return ip_address(text.partition("%")[0])


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether a delivery may connect to an address.

    Args:
        address: what a name was resolved to.
        allowed: networks that may be reached though they are private.
    """
    address = _inner(address)
    return _is_public(address) or any(
        address.version == network.version and address in network for network in allowed
    )


def _inner(address: Address) -> Address:
    """The IPv4 address that packets to an IPv6 address would end up at, where there is one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _SPECIAL_V6)
