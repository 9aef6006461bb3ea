"""etcd or Redis: whether it answers, and whether it is fit to elect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.retry import Retry

from chronos_site.config import ElectionConfig
from chronos_site.transport import EtcdSecurity, check_redis_files, redis_remedy
from jobs.doctor.finding import Finding, Level, fail, ok, warn

_PATIENCE: Final = 3.0
# docs/decisions/0005: earlier ones let a member that was stopped revoke a lease that was renewed.
_FIXED: Final = {(3, 4): 31, (3, 5): 13}
_BRING_BACK: Final = "Start it, or bring it back; else"
_MAKE_ROOM: Final = (
    "Its quota is used up, and it takes no more: etcdctl compact, defrag, then alarm disarm. "
    "--auto-compaction-retention=1h keeps it small."
)
_REFUSED: Final = "Check ETCD_USERNAME, ETCD_PASSWORD and the user's rights."


def examine_etcd(config: ElectionConfig) -> Iterator[Finding]:
    """Each member, and whether most of them are there."""
    context = config.security.context()
    scheme = "http" if context is None else "https"
    healthy = 0
    # Proxies of the environment are for other connections.
    with httpx.Client(
        verify=False if context is None else context, timeout=_PATIENCE, trust_env=False
    ) as client:
        for endpoint in config.endpoints:
            try:
                finding = _member(client, f"{scheme}://{endpoint}", endpoint, config.security)
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as exc:
                yield fail(f"{endpoint} does not answer: {exc}", _unreached(exc, config.security))
            else:
                healthy += finding.level != "fail"
                yield finding
    yield from judge_quorum(healthy, len(config.endpoints))


def judge_quorum(healthy: int, members: int) -> Iterator[Finding]:
    """Whether most members are there. Where none is, that has been said of each."""
    if healthy and healthy <= members // 2:
        yield fail(
            f"{healthy} of {members} members answer: nobody can be elected",
            "Bring most of them back.",
        )


def _unreached(exc: Exception, security: EtcdSecurity) -> str:
    is_silent = isinstance(exc, httpx.ConnectError | httpx.TimeoutException)
    names = "ETCD_ENDPOINTS"
    # What answers in another way may speak TLS.
    if security.ca is not None or not is_silent:
        names += ", ETCD_TLS_CA, ETCD_TLS_CERT and ETCD_TLS_KEY"
    return f"{_BRING_BACK} check {names}." if is_silent else f"Check {names}."


def _member(client: httpx.Client, url: str, endpoint: str, security: EtcdSecurity) -> Finding:
    version = str(client.get(f"{url}/version").raise_for_status().json()["etcdserver"])
    # 503 without a quorum.
    finding = judge_member(endpoint, version, client.get(f"{url}/health").json())
    if finding.level is not Level.FAIL and security.username is not None:
        user = {"name": security.username, "password": security.password}
        answer = client.post(f"{url}/v3/auth/authenticate", json=user)
        if answer.is_error:
            return fail(f"{endpoint}: {_words(answer)}", _REFUSED)
    return finding


def judge_member(endpoint: str, version: str, health: Mapping[str, Any]) -> Finding:
    """Whether a member can elect.

    Args:
        endpoint: its host:port.
        version: of etcd.
        health: what it answers at /health.
    """
    if str(health["health"]).lower() != "true":
        reason = str(health.get("reason") or "without a leader")
        remedy = _MAKE_ROOM if "NOSPACE" in reason else "Bring the others back."
        return fail(f"{endpoint}: version {version}, not healthy: {reason}", remedy)
    if _is_outdated(version):
        return warn(
            f"{endpoint}: version {version}, which may end the leader's lease after a pause of a "
            "member",
            "Upgrade to 3.5.13 (3.4.31) or later.",
        )
    return ok(f"{endpoint}: version {version}")


def _is_outdated(version: str) -> bool:
    major, minor, patch = (int(part.partition("-")[0]) for part in version.split(".")[:3])
    return (major, minor) < (3, 4) or patch < _FIXED.get((major, minor), 0)


def _words(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()[:200]


def examine_redis(config: ElectionConfig) -> Iterator[Finding]:
    """The one server, and whether it may drop the key that elects."""
    check_redis_files(config.redis_url)
    # None shows the address, which may hold a password.
    try:
        with Redis.from_url(
            config.redis_url,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
            # By default it would wait several times as long.
            retry=Retry(NoBackoff(), 0),
        ) as client:
            info: dict[str, Any] = client.info()
    except (AuthenticationError, NoPermissionError) as exc:
        yield fail(
            f"it refuses this client: {exc}",
            "Check the user, the password and the user's rights: REDIS_URL.",
        )
        return
    except (RedisError, OSError) as exc:
        yield fail(f"it does not answer: {exc}", redis_remedy(str(exc)))
        return
    except (TypeError, ValueError):
        yield fail(
            "REDIS_URL has an option that there is not, or a value that it cannot have",
            "Look at what follows the host.",
        )
        return
    yield from judge_redis(info)


def judge_redis(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether it can elect, by what it tells of itself."""
    yield ok(f"version {info['redis_version']}")
    if info["role"] != "master":
        yield fail("it is a replica, which refuses writes", "Let REDIS_URL name the primary.")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield warn(
            f"maxmemory-policy is {policy}: short of memory, it may drop the leader's key",
            "Set maxmemory-policy to noeviction.",
        )
    else:
        yield ok(f"maxmemory-policy is {policy}")
