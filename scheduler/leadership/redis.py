"""Election by one key in Redis, which lives no longer than its holder renews it.

Beside the key `chronos/<database>/scheduler` stands a hash that remembers the latest term and the
run of the server. To a run that it does not remember (a restart, a promoted replica, a flushed
database) an earlier holder may be unknown and still trust its term: for a whole TTL nobody is
elected there (docs/decisions/0020).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from redis.connection import Connection, parse_url
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    NoPermissionError,
    RedisError,
)

from chronos_site.config import ElectionConfig
from chronos_site.transport import check_redis_files, redis_remedy
from jobs.errors import ConfigError, ElectionUnavailable
from jobs.loop import Patience
from scheduler.leadership.elector import RENEWALS, Term, Unanswered, uptime

# Arguments of all three: the holder, which begins with the milliseconds of its TTL; these again.
# Redis runs a script as a whole, so looking at the key and writing it is one step.

_TAKE: Final = """
local key, memory, candidate, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local is_known = redis.call('HGET', memory, 'run') == run
local holder = redis.call('GET', key)
if not is_known then
    redis.call('HSET', memory, 'run', run)
    holder = holder or ttl .. ' nobody'
elseif not holder then
    local now = redis.call('TIME')
    local latest = tonumber(redis.call('HGET', memory, 'term') or 0)
    -- The time goes on also when the memory was lost, the memory when the time is set back.
    local term = math.max(latest + 1, now[1] * 1000 + math.floor(now[2] / 1000))
    redis.call('HSET', memory, 'term', term)
    redis.call('SET', key, candidate, 'PX', ttl)
    return {term, 0}
end
local granted = tonumber(string.match(holder, '^%d+') or ttl)
local left = redis.call('PTTL', key)
-- Longer than it was granted: the server's clock was set back.
if not is_known or left < 0 or left > granted then
    redis.call('SET', key, holder, 'PX', granted)
    left = granted
end
return {0, left}
"""
_RENEW: Final = """
return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[1], 'released')
end
"""

# Seconds: to connect, and for each answer of the handshake, which cannot be given up early; the
# same with TLS; between two looks at whether an answer is still wanted; to give a term back;
# between two looks at the key.
_CONNECT_TIMEOUT: Final = 0.3
_HANDSHAKE_TIMEOUT: Final = 1.0
_LOOK: Final = 0.1
_RESIGNATION: Final = 0.5
_SHORTEST_WAIT: Final = 0.01

_REFUSALS: Final = (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    NoPermissionError,
)


class RedisElector:
    """One candidate in one election. Not for use by several threads at once."""

    def __init__(self, config: ElectionConfig, owner: str) -> None:
        """Prepare; nothing is sent before `campaign`.

        Args:
            config: Redis's address, and the TTL, which Redis counts in milliseconds.
            owner: who leads, for people who look at the key.

        Raises:
            ConfigError: the address cannot be used.
        """
        self._server = _Server(config.redis_url)
        self._key = f"chronos/{config.database}/scheduler"
        self._ttl = config.ttl
        self._timeout = max(1.0, config.ttl.total_seconds() / RENEWALS)
        self._owner = owner
        self._term: Term | None = None

    def campaign(
        self, stop: threading.Event, on_lost: Callable[[], None] | None = None
    ) -> Term | None:
        """See `Elector.campaign`."""
        if self._term:
            self._term.resign()
        claim = _RedisClaim(self._server, self._key, self._ttl, self._owner)
        patience = Patience(stop)
        while not stop.is_set():
            try:
                self._term = self._stand(claim, stop, patience, on_lost)
            except Unanswered as exc:
                if not stop.is_set():
                    patience.bear(exc)
            else:
                return self._term
        return None

    def _stand(
        self,
        claim: _RedisClaim,
        stop: threading.Event,
        patience: Patience,
        on_lost: Callable[[], None] | None,
    ) -> Term:
        while True:
            deadline = uptime() + self._timeout
            with self._server.connected(deadline) as releases:
                # Before the look at the key, so that no release falls between the two.
                releases.call("SUBSCRIBE", self._key, deadline=deadline, abandon=stop)
                since = uptime()
                number, left = claim.take(since + self._timeout, stop)
                patience.relax()
                if number:
                    return Term(number, claim, ttl=self._ttl, since=since, on_lost=on_lost)
                releases.hears(until=uptime() + max(left, _SHORTEST_WAIT), abandon=stop)


class _RedisClaim:
    """The key with one candidate's value: the `Claim` of a term."""

    def __init__(self, server: _Server, key: str, ttl: timedelta, owner: str) -> None:
        milliseconds = round(ttl / timedelta(milliseconds=1))
        self._server = server
        self._keys = (key, f"{key}/memory")
        # New for each campaign: what a server does late for an earlier one must not match.
        self._arguments = (f"{milliseconds} {owner} {secrets.token_hex(8)}", milliseconds)

    def take(self, deadline: float, abandon: threading.Event) -> tuple[int, float]:
        """Take the key if it is free: the number of the term, or 0 and the seconds to wait."""
        number, left = self._run(_TAKE, deadline, abandon)
        return number, left / 1000

    def renew(self, deadline: float, abandon: threading.Event) -> bool:
        return bool(self._run(_RENEW, deadline, abandon))

    def release(self) -> None:
        with suppress(ElectionUnavailable):
            self._run(_RELEASE, uptime() + _RESIGNATION)

    def _run(self, script: str, deadline: float, abandon: threading.Event | None = None) -> Any:
        with self._server.connected(deadline) as line:
            return line.call(
                *("EVAL", script, len(self._keys), *self._keys, *self._arguments),
                deadline=deadline,
                abandon=abandon,
            )


class _Server:
    """Where Redis is."""

    def __init__(self, url: str) -> None:
        check_redis_files(url)
        self._patience = _HANDSHAKE_TIMEOUT if url.startswith("rediss:") else _CONNECT_TIMEOUT
        try:
            options = parse_url(url)  # type: ignore[no-untyped-call]
            self._connection_class = options.pop("connection_class", Connection)
            self._options = options | {
                "protocol": 2,
                "driver_info": None,
                "socket_connect_timeout": self._patience,
                "socket_timeout": self._patience,
                "decode_responses": False,
                "health_check_interval": 0,
                "retry_on_timeout": False,
            }
            unconnected = self._connection_class(**self._options)
        except (RedisError, TypeError, ValueError):
            # Its text may show a part of the password.
            raise ConfigError(
                "REDIS_URL cannot be used. It must be redis:// or rediss://, perhaps user and "
                "password, both percent-encoded, then host:port/number."
            ) from None
        self._address = f"{unconnected.host}:{unconnected.port}"

    @contextmanager
    def connected(self, deadline: float) -> Iterator[_Line]:
        """A connection for one call; errors inside become ours.

        Raises:
            Unanswered: no usable answer, or abandoned.
            ElectionUnavailable: refused, now and later.
        """
        connection = self._connection_class(**self._options)
        connection.socket_connect_timeout = max(0.01, min(self._patience, deadline - uptime()))
        try:
            connection.connect()
            yield _Line(connection)
        except _REFUSALS as exc:
            raise ElectionUnavailable(
                f"Redis {self._address} refuses this client ({exc}). Check the user, the password "
                "and the user's rights: REDIS_URL."
            ) from exc
        except (RedisError, OSError, ValueError) as exc:
            reason = str(exc).rstrip(".")
            raise Unanswered(f"Redis {self._address}: {reason}. {redis_remedy(reason)}") from exc
        finally:
            connection.disconnect()


class _Line:
    """A connection whose answers are awaited only while somebody wants them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def call(
        self, *command: str | int, deadline: float, abandon: threading.Event | None = None
    ) -> Any:
        """Send a command and return its answer. Raises TimeoutError."""
        self._connection.send_command(*command)  # type: ignore[no-untyped-call]
        if not self.hears(until=deadline, abandon=abandon):
            raise TimeoutError("no answer in time")
        return self._connection.read_response()

    def hears(self, *, until: float, abandon: threading.Event | None) -> bool:
        """Wait for something to read, an instant at most. Raises TimeoutError when abandoned."""
        while (left := until - uptime()) > 0:
            if abandon is not None and abandon.is_set():
                raise TimeoutError("abandoned")
            if self._connection.can_read(min(left, _LOOK)):
                return True
        return False
