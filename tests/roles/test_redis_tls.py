"""An election by Redis over TLS, and what is said to those who do not get in."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from django.conf import settings
from redis import Redis as Client

from chronos_site.config import ElectionConfig
from devstack.redis import Redis
from jobs.doctor.election import examine_redis
from jobs.doctor.finding import Level
from jobs.errors import ElectionUnavailable
from scheduler.leadership import elector_for
from scheduler.leadership.elector import Unanswered
from tests.roles.candidates import Campaigns, term_of
from tests.secured import PASSWORD, Certificates, Encrypted
from tests.waiting import wait_for

TTL: Final = timedelta(seconds=10)
WRONG: Final = "wrong-word"


@dataclass(frozen=True)
class SecuredRedis:
    """A Redis with a password behind TLS, and an authority that it has never heard of."""

    port: int
    certificates: Certificates
    strangers: Certificates

    def url(
        self,
        *,
        scheme: str = "rediss",
        password: str = PASSWORD,
        ca: Path | None = None,
        has_certificate: bool = True,
    ) -> str:
        """For a client that is set up right but for what is given."""
        files = self.certificates
        query = f"ssl_ca_certs={ca or files.ca}"
        if has_certificate:
            query += f"&ssl_certfile={files.cert}&ssl_keyfile={files.key}"
        where = f":{quote(password, safe='')}@127.0.0.1:{self.port}/0"
        return f"{scheme}://{where}?{query}" if scheme == "rediss" else f"{scheme}://{where}"

    def election(self, url: str | None = None) -> ElectionConfig:
        return ElectionConfig("redis", (), TTL, redis_url=url or self.url())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRedis]:
    directory = tmp_path_factory.mktemp("secured-redis")
    ours, strangers = (Certificates(directory / name) for name in ("ours", "strangers"))
    redis = Redis(directory / "redis", binary=settings.ENV["REDIS_BIN"])
    redis.start()
    try:
        redis.wait_ready()
        with Client(port=redis.port) as client:
            # Else the first election of all takes a TTL longer.
            run = client.info("server")["run_id"]
            client.hset("chronos/chronos/scheduler/memory", "run", run)
            client.config_set("requirepass", PASSWORD)
        front = Encrypted(redis.port, ours)
        try:
            yield SecuredRedis(front.port, ours, strangers)
        finally:
            front.close()
    finally:
        redis.kill()


def test_a_leader_is_elected_over_tls_and_followed_by_another(secured: SecuredRedis) -> None:
    with Campaigns(secured.election()) as campaigns:
        first = term_of(campaigns.stand("one"))
        standby = campaigns.stand("two")
        # Beyond two renewals, each over a connection of its own.
        assert not first.lost.wait(TTL.total_seconds() * 0.75)
        assert not standby.done()

        first.resign()

        assert term_of(standby).number > first.number


def test_the_doctor_finds_nothing_wrong_with_a_redis_behind_tls(secured: SecuredRedis) -> None:
    found = list(examine_redis(secured.election()))

    assert {each.level for each in found} == {Level.OK}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            lambda s: s.url(ca=s.strangers.ca),
            "certificate verify failed.* Check ssl_ca_certs, ssl_certfile and ssl_keyfile in REDIS",
        ),
        # With TLS 1.3 the refusal may come when the client has begun to write.
        (lambda s: s.url(has_certificate=False), r"Check .*(ssl_certfile|or a certificate)"),
        (lambda s: s.url(scheme="redis"), "may demand rediss://"),
    ],
    ids=["authority", "no certificate", "plaintext"],
)
def test_what_tls_refuses_is_waited_for_and_said_once(
    secured: SecuredRedis,
    caplog: pytest.LogCaptureFixture,
    url: Callable[[SecuredRedis], str],
    sentence: str,
) -> None:
    config = secured.election(url(secured))

    [finding] = examine_redis(config)
    with Campaigns(config) as campaigns:
        waiting = campaigns.stand()
        wait_for(lambda: re.search(sentence, caplog.text), show=lambda: caplog.text)
        assert not waiting.done()

    assert finding.level is Level.FAIL
    assert re.search(sentence, f"{finding.text} {finding.remedy}"), finding
    assert PASSWORD not in caplog.text + finding.text


def test_a_wrong_password_ends_the_campaign_with_a_sentence(secured: SecuredRedis) -> None:
    config = secured.election(secured.url(password=WRONG))

    [finding] = examine_redis(config)
    with pytest.raises(ElectionUnavailable, match=r"refuses this client .*: REDIS_URL") as refused:
        elector_for(config, "one").campaign(threading.Event())

    assert not isinstance(refused.value, Unanswered)
    assert finding.text.startswith("it refuses this client: ")
    assert finding.remedy == "Check the user, the password and the user's rights: REDIS_URL."
    assert WRONG not in finding.text + str(refused.value)
