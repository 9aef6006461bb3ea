"""What NetworkPolicies allow, by the rules of https://kubernetes.io/docs/concepts/services-networking/network-policies/"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from tests.deploy.manifests import Document, Workload

Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class Peer:
    """Who is at the other end: pods of a namespace, or an address outside of the cluster."""

    namespace: str | None = None
    address: Address | None = None

    def is_named_by(self, peer: Mapping[str, Any]) -> bool:
        """Whether a policy's peer is this one."""
        if block := peer.get("ipBlock"):
            return self.address is not None and _is_within(self.address, block)
        assert peer.keys() == {"namespaceSelector"}, peer
        labels = peer["namespaceSelector"]["matchLabels"]
        return bool(labels == {"kubernetes.io/metadata.name": self.namespace})


def outside(address: str) -> Peer:
    """A machine that is no part of the cluster."""
    return Peer(address=ip_address(address))


@dataclass(frozen=True)
class Policies:
    """All policies of a namespace."""

    documents: Sequence[Document]

    def let_out(self, workload: Workload, peer: Peer, port: int, protocol: str = "TCP") -> bool:
        """Whether its pods may connect to a port of somebody."""
        return self._allow("Egress", "to", workload, peer, port, protocol)

    def let_in(self, workload: Workload, peer: Peer, port: int) -> bool:
        """Whether somebody may connect to a port of its pods."""
        return self._allow("Ingress", "from", workload, peer, port, "TCP")

    def _allow(
        self, direction: str, end: str, workload: Workload, peer: Peer, port: int, protocol: str
    ) -> bool:
        selecting = [
            document["spec"]
            for document in self.documents
            if direction in document["spec"]["policyTypes"]
            and _selects(document["spec"]["podSelector"], workload.labels)
        ]
        rules = [rule for spec in selecting for rule in spec.get(direction.lower(), ())]
        # Pods that no policy selects are open to everybody.
        return not selecting or any(
            any(peer.is_named_by(each) for each in rule[end])
            and any(
                each["protocol"] == protocol
                and workload.ports.get(each["port"], each["port"]) == port
                for each in rule["ports"]
            )
            for rule in rules
        )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In", rule
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def _is_within(address: Address, block: Mapping[str, Any]) -> bool:
    return address in ip_network(block["cidr"]) and not any(
        address in ip_network(each) for each in block.get("except", ())
    )
