"""Servers that speak nothing but TLS and ask for a user, and the certificates for both sides."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from devstack.etcd import Etcd
from devstack.kafka import Kafka
from devstack.mongo import Mongod

USER: Final = "chronos"
PASSWORD: Final = "p:w/d@% 1"  # noqa: S105 - of servers that live as long as a test
"""With characters that matter in addresses and configuration files."""
TOKEN_TTL: Final = timedelta(seconds=2)
"""After so long without a call that needs it etcd forgets a token."""
DAY: Final = timedelta(days=1)
YEAR: Final = timedelta(days=365)
ESCAPED: Final = "p%3Aw%2Fd%40%25%201"


@dataclass(frozen=True)
class Certificates:
    """PEM files of an authority, and of a server and a client that it vouches for."""

    directory: Path
    authority: trustme.CA = field(default_factory=trustme.CA, repr=False)

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.authority.cert_pem.write_to_path(str(self.ca))
        client, now = "client@chronos.test", datetime.now(UTC)
        self.issue("server", "127.0.0.1")
        self.issue("client", client)
        self.issue("named", client, common_name="chronos")
        for prefix, subject in (("", client), ("server-", "127.0.0.1")):
            self.issue(f"{prefix}expired", subject, not_before=now - YEAR, not_after=now - DAY)
            self.issue(f"{prefix}future", subject, not_before=now + DAY, not_after=now + YEAR)

    def issue(self, name: str, subject: str, **terms: Any) -> tuple[Path, Path, Path]:
        """Another certificate of the authority: it, its key, and both in one file."""
        issued = self.authority.issue_cert(subject, **terms)
        cert, key, both = (self._file(f"{name}.{part}") for part in ("cert", "key", "both"))
        issued.cert_chain_pems[0].write_to_path(str(cert))
        issued.private_key_pem.write_to_path(str(key))
        issued.private_key_and_cert_chain_pem.write_to_path(str(both))
        return cert, key, both

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.pem"

    @property
    def ca(self) -> Path:
        return self._file("ca")

    @property
    def cert(self) -> Path:
        """The client's."""
        return self._file("client.cert")

    @property
    def key(self) -> Path:
        return self._file("client.key")

    @property
    def named_cert(self) -> Path:
        """Another one of the client's, with a common name."""
        return self._file("named.cert")

    @property
    def named_key(self) -> Path:
        return self._file("named.key")

    def untimely(self, name: str) -> tuple[Path, Path, Path]:
        """Those that have `expired` or are for the `future`, of the client or with `server-` of the
        server: certificate, key, and both in one file.
        """
        return self._file(f"{name}.cert"), self._file(f"{name}.key"), self._file(f"{name}.both")

    @property
    def both(self) -> Path:
        """Key and certificate in one file, as MongoDB's drivers want them."""
        return self._file("client.both")

    @property
    def server_cert(self) -> Path:
        return self._file("server.cert")

    @property
    def server_key(self) -> Path:
        return self._file("server.key")

    @property
    def server_both(self) -> Path:
        return self._file("server.both")

    def context(self) -> ssl.SSLContext:
        """For a client of Python's."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.cert, self.key)
        return context


class Encrypted:
    """TLS in front of a server that speaks none, as stunnel would be: the wheel's Redis has no TLS.

    Client certificates are demanded.
    """

    def __init__(self, port: int, certificates: Certificates) -> None:
        """Listen, until `close`.

        Args:
            port: of the server.
            certificates: shown to clients, and what theirs are checked against.
        """
        self._port = port
        self._context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca)
        )
        self._context.load_cert_chain(certificates.server_cert, certificates.server_key)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Hang up on everybody."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        async with await asyncio.start_server(self._serve, sock=self._listener, ssl=self._context):
            await self._closing.wait()

    async def _serve(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(from_client, to_server))
                group.create_task(_pass_on(from_server, to_client))
        finally:
            to_server.close()
            to_client.close()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    # The other direction ends with it.
    sink.close()


class SecuredMongod(Mongod):
    """mongod with `tlsMode=requireTLS`, client certificates and users."""

    def __init__(
        self, directory: Path, certificates: Certificates, *, binary: str | None = None
    ) -> None:
        super().__init__(directory, binary=binary, cache_gb=0.25)
        self._certificates = certificates

    @property
    def location(self) -> str:
        return self.uri()

    def uri(self, *, password: str = ESCAPED, ca: Path | None = None, tls: bool = True) -> str:
        """Where its clients find it: MONGO_URI."""
        uri = f"mongodb://{USER}:{password}@{self.address}/?replicaSet=rs0"
        if tls:
            uri += f"&tls=true&tlsCAFile={ca or self._certificates.ca}"
            uri += f"&tlsCertificateKeyFile={self._certificates.both}"
        return uri

    def command(self) -> list[str]:
        key_file = self.directory / "members.key"
        key_file.write_text("between+members/" * 4)
        key_file.chmod(0o600)
        return [
            *super().command(),
            "--tlsMode=requireTLS",
            f"--tlsCertificateKeyFile={self._certificates.server_both}",
            f"--tlsCAFile={self._certificates.ca}",
            f"--keyFile={key_file}",
        ]

    def client_options(self) -> dict[str, Any]:
        return {
            "tls": True,
            "tlsCAFile": str(self._certificates.ca),
            "tlsCertificateKeyFile": str(self._certificates.both),
        }

    def add_user(self) -> None:
        """The first user, whom MongoDB lets anybody make from its own machine."""
        client: MongoClient[dict[str, Any]] = MongoClient(self.address, **self.client_options())
        with client, suppress(OperationFailure):
            client.admin.command("createUser", USER, pwd=PASSWORD, roles=["root"])


class SecuredEtcd(Etcd):
    """etcd with client certificates, and a user once `add_user` was called."""

    def __init__(
        self, directory: Path, certificates: Certificates, *, binary: str | None = None
    ) -> None:
        super().__init__(directory, binary=binary)
        self._certificates = certificates

    def command(self) -> list[str]:
        plain, encrypted = f"http://{self.address}", f"https://{self.address}"
        return [
            *(part.replace(plain, encrypted) for part in super().command()),
            f"--cert-file={self._certificates.server_cert}",
            f"--key-file={self._certificates.server_key}",
            f"--trusted-ca-file={self._certificates.ca}",
            "--client-cert-auth",
            f"--auth-token-ttl={TOKEN_TTL.total_seconds():.0f}",
        ]

    def answers(self) -> bool:
        with self._client() as client, suppress(httpx.HTTPError):
            return client.get("/health").is_success
        return False

    def add_user(self) -> None:
        """A user who may do what Chronos does, and no more; and the superuser etcd insists on."""
        keys = {"key": _base64("chronos/"), "range_end": _base64("chronos0")}
        with self._client() as client:
            for path, body in (
                ("user/add", {"name": "root", "password": "root"}),
                ("role/add", {"name": "root"}),
                ("user/grant", {"user": "root", "role": "root"}),
                ("role/add", {"name": "scheduler"}),
                ("role/grant", {"name": "scheduler", "perm": {"permType": "READWRITE", **keys}}),
                ("user/add", {"name": USER, "password": PASSWORD}),
                ("user/grant", {"user": USER, "role": "scheduler"}),
                ("enable", {}),
            ):
                client.post(f"/v3/auth/{path}", json=body).raise_for_status()

    def _client(self) -> httpx.Client:
        return httpx.Client(
            verify=self._certificates.context(),
            base_url=f"https://{self.address}",
            trust_env=False,
            timeout=10,
        )


class SecuredKafka(Kafka):
    """Kafka with SASL_SSL and client certificates; `add_user` gives it a user by SCRAM."""

    def __init__(
        self,
        directory: Path,
        certificates: Certificates,
        *,
        home: str | None = None,
        java_home: str | None = None,
    ) -> None:
        super().__init__(directory, home=home, java_home=java_home)
        self._certificates = certificates

    def properties(self) -> str:
        key_store = self.directory / "server.pem"
        key_store.write_bytes(
            _pkcs8(self._certificates.server_key) + self._certificates.server_cert.read_bytes()
        )
        modules = "org.apache.kafka.common.security"
        properties = {
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f"{modules}.plain.PlainLoginModule required "
                'username="broker" password="broker" user_broker="broker";'
            ),
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                f"{modules}.scram.ScramLoginModule required;"
            ),
            "listener.name.sasl_ssl.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._certificates.ca),
        }
        return (
            super()
            .properties()
            .replace(f"PLAINTEXT://{self.address}", f"SASL_SSL://{self.address}")
            .replace("PLAINTEXT:PLAINTEXT,", "SASL_SSL:SASL_SSL,")
        ) + "".join(f"{name}={value}\n" for name, value in properties.items())

    def client_settings(self) -> dict[str, str]:
        return super().client_settings() | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "broker",
            "sasl.password": "broker",
            "ssl.ca.location": str(self._certificates.ca),
            "ssl.certificate.location": str(self._certificates.cert),
            "ssl.key.location": str(self._certificates.key),
        }

    def add_user(self) -> None:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
        admin = AdminClient({**self.client_settings()})
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(timeout=30)


def _pkcs8(key: Path) -> bytes:
    """The key in the one form that Java reads."""
    return load_pem_private_key(key.read_bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
