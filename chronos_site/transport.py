"""How clients know whom they talk to, and prove who they are: TLS, users and passwords.

Files are looked at here, not by the parsers of `chronos_site.values`: what a manifest says can be
read on a machine that has none of them.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl, unquote

from jobs.errors import ConfigError

KAFKA_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MONGO_FILES: Final = ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")
_REDIS_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


@dataclass(frozen=True)
class KafkaSecurity:
    """How to speak to Kafka: `KAFKA_SECURITY_PROTOCOL`, `KAFKA_SASL_*` and `KAFKA_SSL_*`."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    """PEM file; None: the system's authorities."""
    cert: str | None = None
    key: str | None = None

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_authenticated(self) -> bool:
        """Whether the client proves who it is."""
        return self.protocol.startswith("SASL") or self.cert is not None

    def __post_init__(self) -> None:
        sasl = {
            "KAFKA_SASL_MECHANISM": self.mechanism,
            "KAFKA_SASL_USERNAME": self.username,
            "KAFKA_SASL_PASSWORD": self.password,
        }
        chosen = f"KAFKA_SECURITY_PROTOCOL={self.protocol}"
        if self.protocol.startswith("SASL"):
            for name, value in sasl.items():
                if value is None:
                    raise ConfigError(f"{name} must be set with {chosen}.")
        else:
            _refuse(sasl, f"has no effect with {chosen}: use SASL_SSL, or unset it")
        if not self.is_encrypted:
            _refuse(self._files, f"has no effect with {chosen}: use SSL or SASL_SSL, or unset it")
        _check_pair(self._files)

    def check_files(self) -> None:
        """See whether a TLS connection can be made with the files.

        Raises:
            ConfigError: one holds no certificate or key that can be used. Kafka's own client says
                it without a variable, and some of its classes not as our error.
        """
        if self.is_encrypted:
            _context(self._files)

    @property
    def _files(self) -> _Files:
        return {"KAFKA_SSL_CA": self.ca, "KAFKA_SSL_CERT": self.cert, "KAFKA_SSL_KEY": self.key}


@dataclass(frozen=True)
class EtcdSecurity:
    """How to speak to etcd: `ETCD_TLS_*`, `ETCD_USERNAME` and `ETCD_PASSWORD`."""

    ca: str | None = None
    """PEM file of the authorities; None: no TLS."""
    cert: str | None = None
    key: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.ca is None:
            _refuse(self._files, "has no effect without ETCD_TLS_CA: set that too")
        _check_pair(self._files)
        if (self.username is None) != (self.password is None):
            raise ConfigError("ETCD_USERNAME and ETCD_PASSWORD must be set together.")

    def context(self) -> ssl.SSLContext | None:
        """What a TLS connection is made with; None: no TLS.

        Raises:
            ConfigError: a file holds no certificate or key that can be used.
        """
        return None if self.ca is None else _context(self._files)

    @property
    def _files(self) -> _Files:
        return {"ETCD_TLS_CA": self.ca, "ETCD_TLS_CERT": self.cert, "ETCD_TLS_KEY": self.key}


@dataclass(frozen=True)
class Address:
    """What the address of a server, MONGO_URI or REDIS_URL, says about how it is spoken to."""

    scheme: str
    hosts: tuple[str, ...]
    user: str
    """Decoded, as is the password; empty: none is part of it."""
    password: str = field(repr=False)
    options: Mapping[str, str]
    """By name in lower case."""

    @classmethod
    def of(cls, url: str) -> Address:
        """Read an address that `chronos_site.values` accepts."""
        # urlsplit of newer Pythons refuses an IPv6 address behind another host.
        scheme, _, rest = url.partition("://")
        authority, _, query = rest.partition("?")
        credentials, _, hosts = authority.partition("/")[0].rpartition("@")
        options = {name.lower(): value for name, value in parse_qsl(query.replace(";", "&"))}
        names = tuple(_host_of(host) for host in hosts.split(","))
        user, _, password = map(unquote, credentials.partition(":"))
        return cls(scheme, names, user, password, options)

    @property
    def has_user(self) -> bool:
        """Whether a user, or at least a password, is part of it."""
        return bool(self.user or self.password)

    @property
    def is_encrypted(self) -> bool:
        # https://www.mongodb.com/docs/manual/reference/connection-string-options/#tls-options
        by_default = "true" if self.scheme in ("mongodb+srv", "rediss") else "false"
        return self.options.get("tls", self.options.get("ssl", by_default)).lower() == "true"


def _host_of(address: str) -> str:
    """The host of `host`, `host:port`, `[::1]` or `[::1]:port`; the path of a Unix socket."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    if (path := unquote(address)).startswith("/"):
        return path
    return address.rpartition(":")[0] or address


def are_here(hosts: Iterable[str]) -> bool:
    """Whether all of these hosts are this machine, by whatever name."""
    return all(_is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.startswith("/")


def check_mongo_files(uri: str) -> None:
    """See whether the files that MONGO_URI names are there.

    Raises:
        ConfigError: one is not. The text does not show the address, which may hold a password.
    """
    options = Address.of(uri).options
    _check_files({f"{name} in MONGO_URI": options.get(name.lower()) for name in _MONGO_FILES})


def check_redis_files(url: str) -> None:
    """See whether a TLS connection can be made with the files that REDIS_URL names.

    Raises:
        ConfigError: see `check_mongo_files`.
    """
    address = Address.of(url)
    files = {f"{name} in REDIS_URL": address.options.get(name) for name in _REDIS_FILES}
    _check_files(files)
    if address.is_encrypted:
        _context(files)


def redis_remedy(reason: str) -> str:
    """What to look at when Redis does not answer.

    Args:
        reason: as its client tells it.
    """
    if "SSL" in reason or "certificate" in reason:
        return "Check ssl_ca_certs, ssl_certfile and ssl_keyfile in REDIS_URL."
    if "closed" in reason or "reset" in reason:
        return "Check REDIS_URL: what hangs up may demand rediss://, or a certificate."
    return "Start it, or bring it back; else check REDIS_URL."


_Files = Mapping[str, str | None]
"""By the names of the settings: of the authorities, of the client's certificate, of its key."""


def _context(files: _Files) -> ssl.SSLContext:
    (ca_name, ca), (cert_name, cert), (key_name, key) = files.items()
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"{ca_name} names {ca!r}, which cannot be used: {exc}. It must be a PEM file with the "
            "certificates of the authorities."
        ) from exc
    if cert is not None:
        try:
            # With a function, an encrypted key is an error, not a question on the terminal.
            context.load_cert_chain(cert, key, password=lambda: "")
        except (OSError, ValueError) as exc:
            raise ConfigError(
                f"{cert_name} names {cert!r}, which cannot be used with {key!r} of {key_name}: "
                f"{exc}. Both must be PEM files that belong together, the key without a password."
            ) from exc
    return context


def mongo_files(uri: str) -> tuple[str, ...]:
    """The files of certificates that MONGO_URI names."""
    options = Address.of(uri).options
    return tuple(path for name in _MONGO_FILES[:2] if (path := options.get(name.lower())))


def _refuse(values: Mapping[str, str | None], reason: str) -> None:
    for name, value in values.items():
        if value is not None:
            raise ConfigError(f"{name} {reason}.")


def _check_pair(files: _Files) -> None:
    _check_files(files)
    _, cert, key = files
    if (files[cert] is None) != (files[key] is None):
        raise ConfigError(f"{cert} and {key} must be set together.")


def _check_files(files: _Files) -> None:
    for name, path in files.items():
        if path and not (os.path.isfile(path) and os.access(path, os.R_OK)):
            raise ConfigError(
                f"{name} names {path!r}, which is no file that this process can read."
            )
