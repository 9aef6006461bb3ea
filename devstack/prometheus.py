"""Prometheus, for tests of the rules and dashboards in `deploy/`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import httpx

from devstack.process import DevstackError
from devstack.server import Server


class Prometheus(Server):
    """Prometheus.

    Args:
        directory: see `Server`.
        port: see `Server`.
        config: its configuration file.
        binary: the program.
    """

    name: ClassVar[str] = "prometheus"
    address_variable: ClassVar[str] = "PROMETHEUS_BIN"
    port_variable: ClassVar[str] = "PROMETHEUS_BIN"

    def __init__(
        self, directory: Path, port: int | None = None, *, config: Path, binary: str
    ) -> None:
        super().__init__(directory, port)
        # Kept, since each new one reads the system's certificates.
        self._client = httpx.Client(base_url=f"http://{self.address}", trust_env=False)
        self._config = config
        self._binary = binary

    def command(self) -> list[str]:
        return [
            self._binary,
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        ]

    def answers(self) -> bool:
        try:
            ready = self._client.get("/-/ready", timeout=1)
        except httpx.HTTPError:
            return False
        return ready.status_code == httpx.codes.OK

    def query(self, expression: str, at: datetime | None = None) -> list[dict[str, Any]]:
        """The samples that PromQL finds: each with `metric` (labels) and `value`.

        Args:
            expression: PromQL.
            at: aware; None: now.

        Raises:
            DevstackError: Prometheus refuses it. The text says why.
        """
        when = {} if at is None else {"time": at.timestamp()}
        result = self._get("query", {"query": expression, **when})["result"]
        return list(result)

    def query_range(self, expression: str, begin: datetime, end: datetime) -> list[dict[str, Any]]:
        """The series that PromQL finds, second by second: each with `metric` and `values`.

        Args:
            expression: PromQL.
            begin, end: aware.

        Raises:
            DevstackError: Prometheus refuses it. The text says why.
        """
        between = {"start": begin.timestamp(), "end": end.timestamp(), "step": 1}
        return list(self._get("query_range", {"query": expression, **between})["result"])

    def alerts(self) -> list[dict[str, Any]]:
        """Pending and firing alerts: each with `labels`, `annotations` and `state`."""
        return list(self._get("alerts", {})["alerts"])

    def _get(self, path: str, parameters: dict[str, Any]) -> dict[str, Any]:
        answer = self._client.get(f"/api/v1/{path}", params=parameters, timeout=30).json()
        if answer["status"] != "success":
            raise DevstackError(f"Prometheus refuses {parameters}: {answer['error']}")
        return dict(answer["data"])
