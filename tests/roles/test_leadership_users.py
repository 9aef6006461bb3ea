"""An etcd with users forgets the token of a leader between two renewals: it leads without a gap."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from django.conf import settings

from chronos_site.config import ElectionConfig
from chronos_site.transport import EtcdSecurity
from scheduler.leadership.etcd import EtcdElector
from tests.roles.candidates import Campaigns, term_of
from tests.secured import PASSWORD, TOKEN_TTL, USER, Certificates, SecuredEtcd
from tests.waiting import wait_for

TTL: Final = 6 * TOKEN_TTL
"""Renewed each third of it, when a token that was used for the renewal before is forgotten."""
PATIENCE: Final = timedelta(seconds=60)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[ElectionConfig]:
    """An election on an etcd with users and client certificates."""
    files = Certificates(tmp_path / "certificates")
    etcd = SecuredEtcd(tmp_path / "etcd", files, binary=settings.ENV["ETCD_BIN"])
    etcd.start()
    try:
        etcd.wait_ready()
        etcd.add_user()
        security = EtcdSecurity(str(files.ca), str(files.cert), str(files.key), USER, PASSWORD)
        yield ElectionConfig("etcd", (etcd.address,), TTL, security=security)
    finally:
        etcd.kill()


def test_a_leader_whose_token_runs_out_leads_on(config: ElectionConfig) -> None:
    elector = EtcdElector(config, "one")
    leader = elector.campaign(threading.Event())
    assert leader is not None
    tokens: set[str | None] = set()

    def has_asked_for(count: int) -> bool:
        assert leader.is_valid()
        tokens.add(elector._gateway._token)
        return len(tokens) >= count

    with Campaigns(config) as campaigns:
        waiting = campaigns.stand("two")
        wait_for(lambda: has_asked_for(2), deadline=PATIENCE)
        assert not waiting.done()

        leader.resign()

        assert term_of(waiting).number > leader.number
