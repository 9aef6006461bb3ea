"""Which shards go with which partition, and the triggers that wake their owners."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.lifecycle import SHARDS
from jobs.messages import Trigger, shards_of, trigger_messages, trigger_of
from scheduler.fanout import describe
from tests.builders import NOW


@pytest.mark.parametrize("partitions", [*range(1, SHARDS + 1), 1_000, 10_000])
def test_each_shard_goes_with_exactly_one_partition(partitions: int) -> None:
    ranges = [shards_of(partition, partitions) for partition in range(partitions)]

    assert [shard for shards in ranges for shard in shards] == list(range(SHARDS))
    sizes = {len(shards) for shards in ranges}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("partitions", "triggers"), [(1, 1), (4, 4), (256, 256), (1_000, 256)])
def test_each_range_of_shards_gets_a_trigger_and_partitions_without_any_get_none(
    partitions: int, triggers: int
) -> None:
    messages = trigger_messages(NOW, partitions)

    assert len(messages) == triggers
    for message in messages:
        assert message.topic == "bucket-triggers"
        assert message.partition is not None
        shards = shards_of(message.partition, partitions)
        assert trigger_of(message.value) == Trigger(NOW, shards)


def test_a_trigger_carries_the_minute_and_the_shards_only() -> None:
    second = trigger_messages(NOW, 4)[1]

    assert second.key is None
    assert json.loads(second.value) == {"bucket": "2026-01-15T12:00:00Z", "shards": [64, 127]}


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"bucket": "2026-01-15T12:00:00Z"}',
        b'{"bucket": "today", "shards": [0, 63]}',
        b'{"bucket": 1, "shards": [0, 63]}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": [0]}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": "ab"}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": [0.5, 63]}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": [-1, 63]}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": [63, 0]}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": [0, 256]}',
        b'{"bucket": "2026-01-15T12:00:00Z", "shards": [0, 1e400]}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
def test_junk_is_no_trigger(value: bytes | None) -> None:
    assert trigger_of(value) is None


@given(st.binary())
def test_no_message_stops_its_reader(value: bytes) -> None:
    assert trigger_of(value) is None


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        (frozenset(), "0 of 256 shards"),
        (frozenset(range(256)), "256 of 256 shards: 0-255"),
        (frozenset([*range(64), *range(128, 192)]), "128 of 256 shards: 0-63, 128-191"),
        (frozenset([255]), "1 of 256 shards: 255-255"),
    ],
)
def test_a_worker_says_what_it_owns(shards: frozenset[int], words: str) -> None:
    assert describe(shards) == words
