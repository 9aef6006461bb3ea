"""Election by etcd's own election service.

A candidate's key hangs on its lease; `/v3/election/campaign` answers when every earlier key is
gone, and the create revision of the key numbers the term. Two habits of it shape this module:

- It says "you lead" also when the candidate's own lease ran out while it waited. So a victory is
  checked.
- It goes on waiting when the candidate's lease is revoked; only closing the connection ends it, and
  then that member deletes the key, perhaps much later. So every attempt stands with a fresh lease,
  and hence with a key of its own (docs/decisions/0005).
"""

from __future__ import annotations

import math
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from chronos_site.config import ElectionConfig
from jobs.errors import ElectionUnavailable
from jobs.loop import Patience
from scheduler.leadership.elector import RENEWALS, Term, Unanswered, uptime
from scheduler.leadership.gateway import Gateway, NotFound

# Seconds: to give a term back, to ask one member for that, to give a waiting lease back.
_RESIGNATION: Final = 0.5
_RESIGNATION_PER_MEMBER: Final = 0.3
_FAREWELL: Final = 0.2


class EtcdElector:
    """One candidate in one election. Not for use by several threads at once."""

    def __init__(self, config: ElectionConfig, owner: str) -> None:
        """Prepare; nothing is sent before `campaign`.

        Args:
            config: etcd's members, and the TTL, which etcd rounds up to whole seconds.
            owner: who leads, for people who look at the key.

        Raises:
            ConfigError: a certificate or key for etcd cannot be used.
        """
        self._gateway = Gateway(config.endpoints, config.security)
        self._ttl = config.ttl
        self._timeout = max(1.0, config.ttl.total_seconds() / RENEWALS)
        self._owner = _base64(owner)
        self._name = _base64(f"chronos/{config.database}/scheduler")
        self._term: Term | None = None
        # Until they end, the keys of earlier attempts block everybody, this process included.
        self._leases: list[_Lease] = []

    def campaign(
        self, stop: threading.Event, on_lost: Callable[[], None] | None = None
    ) -> Term | None:
        """See `Elector.campaign`."""
        if self._term:
            self._term.resign()
        patience = Patience(stop)
        while not stop.is_set():
            try:
                self._term = self._stand(stop, patience, on_lost)
            except Unanswered as exc:
                if not stop.is_set():
                    patience.bear(exc)
            else:
                return self._term
        self._revoke_leases(uptime() + _FAREWELL)
        return None

    def _stand(
        self, stop: threading.Event, patience: Patience, on_lost: Callable[[], None] | None
    ) -> Term:
        renewed = uptime()
        lease = self._grant(stop)

        def keep_lease() -> None:
            nonlocal renewed
            started = uptime()
            if started < renewed + lease.ttl.total_seconds() / RENEWALS:
                return
            if not lease.keep_alive(started + self._timeout, stop):
                raise Unanswered("the candidate's lease ran out")
            renewed = started
            patience.relax()

        won = self._gateway.call(
            "/v3/election/campaign",
            {"name": self._name, "lease": lease.id, "value": self._owner},
            deadline=None,
            abandon=stop,
            meanwhile=keep_lease,
        )["leader"]
        number = int(won["rev"])
        claim = _EtcdClaim(self._gateway, lease, key=won["key"], revision=number)
        since = uptime()
        if not claim.renew(since + self._timeout, stop):
            raise Unanswered("the lease ran out before the election was won")
        patience.relax()
        return Term(number, claim, ttl=lease.ttl, since=since, on_lost=on_lost)

    def _grant(self, stop: threading.Event) -> _Lease:
        granted = self._gateway.call(
            "/v3/lease/grant",
            {"TTL": math.ceil(self._ttl.total_seconds())},
            deadline=uptime() + self._timeout,
            abandon=stop,
        )
        self._revoke_leases(uptime() + self._timeout)
        ttl = timedelta(seconds=int(granted["TTL"]))
        lease = _Lease(self._gateway, int(granted["ID"]), ttl)
        self._leases.append(lease)
        return lease

    def _revoke_leases(self, deadline: float) -> None:
        with suppress(ElectionUnavailable):
            for lease in self._leases:
                lease.revoke(deadline)
        self._leases = [lease for lease in self._leases if not lease.gone]


class _Lease:
    """A lease, and so the life of every key that hangs on it."""

    def __init__(self, gateway: Gateway, lease_id: int, ttl: timedelta) -> None:
        self.id = lease_id
        self.ttl = ttl
        self.gone = False
        self._gateway = gateway

    def keep_alive(self, deadline: float, abandon: threading.Event) -> bool:
        answer = self._gateway.call(
            "/v3/lease/keepalive", {"ID": self.id}, deadline=deadline, abandon=abandon
        )
        # The TTL of a lease that does not exist is zero, and zeros may be left out.
        self.gone = int(answer["result"].get("TTL", 0)) <= 0
        return not self.gone

    def revoke(self, deadline: float) -> None:
        if not self.gone:
            with suppress(NotFound):
                self._gateway.call("/v3/lease/revoke", {"ID": self.id}, deadline=deadline)
            self.gone = True


class _EtcdClaim:
    """The winner's key on its lease: the `Claim` of a term."""

    def __init__(self, gateway: Gateway, lease: _Lease, *, key: str, revision: int) -> None:
        self._gateway = gateway
        self._lease = lease
        self._key = key
        self._revision = revision

    def renew(self, deadline: float, abandon: threading.Event) -> bool:
        if not self._lease.keep_alive(deadline, abandon):
            return False
        # A person may have deleted the key to force an election. The read also needs etcd's quorum,
        # so a member that wrongly believes to lead the cluster cannot prolong the term.
        found = self._gateway.call(
            "/v3/kv/range", {"key": self._key}, deadline=deadline, abandon=abandon
        )
        return any(int(pair["create_revision"]) == self._revision for pair in found.get("kvs", ()))

    def release(self) -> None:
        end = uptime() + _RESIGNATION
        for _ in range(self._gateway.members):
            with suppress(ElectionUnavailable):
                self._lease.revoke(min(end, uptime() + _RESIGNATION_PER_MEMBER))
                return


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
