"""The environment becomes configuration, or one sentence that names the variable."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos_site import env
from chronos_site.config import Config, config_from
from chronos_site.env import VARIABLES
from chronos_site.values import asked_at, parse_duration
from jobs.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1.5h", timedelta(minutes=90)),
        ("1h1m1s1ms", timedelta(seconds=3661, milliseconds=1)),
        ("250us", timedelta(microseconds=250)),
        ("250µs", timedelta(microseconds=250)),
        ("2000ns", timedelta(microseconds=2)),
        ("0s", timedelta(0)),
        ("8760h", timedelta(days=365)),
    ],
)
def test_a_duration_reads_as_in_go(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "30",
            "s",
            "-5s",
            "+5s",
            "5 s",
            "5s ",
            "5s\n",
            "5S",
            "5d",
            "1h2",
            "1e3s",
            ".5s",
            "5.s",
        ),
        *("٣s", "876601h", "9" * 400 + "h"),
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_duration(text)


PARTS = st.tuples(st.integers(0, 9_999), st.sampled_from(["h", "m", "s", "ms"]))


@given(st.lists(PARTS, min_size=1, max_size=10))
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    texts = [f"{number}{unit}" for number, unit in parts]

    assert parse_duration("".join(texts)) == sum(map(parse_duration, texts), timedelta(0))


def test_every_default_can_be_used() -> None:
    config = config_from(env.read({}))

    assert isinstance(config, Config)
    for variable in VARIABLES.values():
        assert variable.meaning
        assert not variable.meaning.endswith(".")


def test_an_empty_value_means_the_default() -> None:
    assert env.read({"API_PORT": "", "MONGOD_BIN": ""}) == env.read({})


def test_other_variables_are_not_looked_at() -> None:
    assert env.read({"PATH": "/bin", "API_PORTS": "x"}) == env.read({})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("API_PORT", "65535", 65535),
        ("KAFKA_BROKERS", "a:1, b:2,", ("a:1", "b:2")),
        ("KAFKA_BROKERS", "[::1]:9092", ("[::1]:9092",)),
        ("ETCD_ENDPOINTS", "http://a:2379/", ("a:2379",)),
        ("JOB_TYPE", "a,b", ("a", "b")),
        ("DEBUG", "True", True),
        ("DEBUG", "off", False),
        ("LOG_LEVEL", "WARNING", "WARNING"),
        ("TRACING_ENDPOINT", "https://c:4318/v1/traces", "https://c:4318/v1/traces"),
        ("TRACING_SAMPLE", "0.25", 0.25),
        ("RETENTION_DLQ", "720h", timedelta(days=30)),
        ("EXECUTOR_PREFETCH", "0", 0),
        ("MONGO_DB", "chronos-test_1", "chronos-test_1"),
    ],
)
def test_a_good_value_is_parsed(name: str, text: str, expected: object) -> None:
    assert env.read({name: text})[name] == expected


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("API_PORT", "0", "must be a whole number from 1 to 65535"),
        ("API_PORT", "65536", "must be a whole number from 1 to 65535"),
        ("API_PORT", "http", "must be a whole number from 1 to 65535"),
        ("API_PORT", "80.0", "must be a whole number from 1 to 65535"),
        ("API_PORT", "1" * 5_000, "must be a whole number from 1 to 65535"),
        ("SCHEDULER_TICK", "0s", "must be longer than zero"),
        ("SCHEDULER_TICK", "500", "must be a duration"),
        ("RETENTION_COMPLETED", "99999999999999h", "must be a duration"),
        ("LEADER_BACKEND", "zookeeper", "must be one of: etcd"),
        ("TRACING_SAMPLE", "some", "must be a number from 0 to 1"),
        ("TRACING_ENDPOINT", "collector:4318", "must be a URL"),
        ("TRACING_SAMPLE", "1.1", "must be a number from 0 to 1"),
        ("TRACING_SAMPLE", "-0.5", "must be a number from 0 to 1"),
        ("TRACING_SAMPLE", "nan", "must be a number from 0 to 1"),
        ("KAFKA_BROKERS", ",", "must name at least one"),
        ("KAFKA_BROKERS", "kafka", "must be host:port"),
        ("KAFKA_BROKERS", ":9092", "must be host:port"),
        ("KAFKA_BROKERS", "a:99999", "must be host:port"),
        ("KAFKA_BROKERS", "a:²", "must be host:port"),
        ("DEBUG", "perhaps", "must be true or false"),
        ("LOG_LEVEL", "debug", "must be one of: DEBUG"),
        ("MONGO_DB", "a.b", "must be a name of up to 63"),
        ("MONGO_DB", "a b", "must be a name of up to 63"),
        ("MONGO_DB", "x" * 64, "must be a name of up to 63"),
        ("MONGO_DB", "é" * 32, "must be a name of up to 63"),
        ("MONGO_DB", "a/b", "must be a name of up to 63"),
        ("MONGO_DB", "$db", "must be a name of up to 63"),
    ],
)
def test_a_bad_value_is_refused_by_name_with_its_meaning(
    name: str, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)) as refused:
        env.read({name: text})

    sentence = str(refused.value)
    assert sentence.startswith(f"{name}=")
    assert VARIABLES[name].meaning in sentence
    assert len(sentence) < 500


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("db1:27017", "must begin with mongodb://"),
        ("chronos:hidden@db1", "must begin with mongodb://"),
        ("http://chronos:hidden@db1", "must begin with mongodb://"),
        ("mongodb://chronos:a/hidden@db1", "percent-encoded"),
        ("mongodb://chronos:a:hidden@db1", "percent-encoded"),
        ("mongodb://chronos:a@hidden@db1", "percent-encoded"),
    ],
)
def test_a_bad_address_of_mongodb_is_refused_without_its_password(uri: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"^MONGO_URI: .*{re.escape(problem)}") as refused:
        env.read({"MONGO_URI": uri})

    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("chronos:hidden@cache:6379", "must begin with redis://"),
        ("redis://chronos:a/hidden@cache:6379", "percent-encoded"),
        ("rediss://:1/hidden@cache", "percent-encoded"),
    ],
)
def test_a_bad_address_of_redis_is_refused_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"^REDIS_URL: .*{re.escape(problem)}") as refused:
        env.read({"REDIS_URL": url})

    assert "hidden" not in str(refused.value)


def test_the_address_of_a_collector_is_refused_with_a_password_and_without_showing_it() -> None:
    with pytest.raises(ConfigError, match=r"^TRACING_ENDPOINT: .* without a password") as refused:
        env.read({"TRACING_ENDPOINT": "http://me:hidden@collector/v1/traces"})

    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "uri", ["mongodb://a,b/?replicaSet=r", "mongodb+srv://u:p%40w@c.example/db", "mongodb://u@a"]
)
def test_an_address_of_mongodb_is_kept_as_it_is(uri: str) -> None:
    assert env.read({"MONGO_URI": uri})["MONGO_URI"] == uri


def test_a_lease_that_etcd_cannot_count_is_refused() -> None:
    with pytest.raises(ConfigError, match="LEADER_TTL"):
        config_from(env.read({"LEADER_TTL": "900ms"}))


def test_every_part_of_the_configuration_comes_from_its_variables() -> None:
    changed = {
        "MONGO_DB": "other",
        "RETENTION_DLQ": "1h",
        "KAFKA_PARTITIONS": "7",
        "LEADER_TTL": "3s",
        "CLAIM_BATCH": "11",
        "EXECUTOR_CONCURRENCY": "5",
        "DRAIN_TIMEOUT": "1s",
        "CLAIM_TIMEOUT": "45s",
        "QUEUED_TIMEOUT": "44s",
        "METRICS_PORT": "1234",
    }

    config = config_from(env.read(changed))

    assert config.store.database == "other"
    assert config.store.retention_dlq == timedelta(hours=1)
    assert config.broker.partitions == 7
    assert config.election.ttl == timedelta(seconds=3)
    assert config.scheduler.claim_batch == 11
    assert config.executor.concurrency == 5
    assert config.executor.drain_timeout == timedelta(seconds=1)
    assert config.executor.claim_timeout == config.reaper.claim_timeout == timedelta(seconds=45)
    assert config.reaper.queued_timeout == timedelta(seconds=44)
    assert config.listen.metrics_port == 1234


def test_the_defaults_of_variables_and_of_the_dataclasses_are_the_same() -> None:
    config = config_from(env.read({}))

    for part in (getattr(config, field.name) for field in fields(config)):
        for field in fields(part):
            assert field.default in (MISSING, getattr(part, field.name)), field.name


def test_a_child_gets_this_processs_variables_and_the_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_PORT", "1")
    monkeypatch.setenv("METRICS_PORT", "2")

    child = env.for_child(API_PORT="3")

    assert (child["API_PORT"], child["METRICS_PORT"]) == ("3", "2")
    assert env.read()["API_PORT"] == 1
    assert env.is_set("METRICS_PORT")
    assert not env.is_set("RETENTION_DLQ")


@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 - nothing listens here
        ("::", "[::1]"),
        ("[::]", "[::1]"),
        ("::1", "[::1]"),
        ("127.0.0.1", "127.0.0.1"),
        ("chronos.example.com", "chronos.example.com"),
    ],
)
def test_who_listens_everywhere_is_asked_on_this_machine(listens: str, asked: str) -> None:
    assert asked_at(listens) == asked
