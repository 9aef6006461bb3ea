"""Which of the driver's errors are outages, and which are our own mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    CursorNotFound,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from jobs.errors import StoreRefused, StoreUnavailable
from jobs.repository.outages import outages_named


def bulk(*codes: int, concern: tuple[Any, ...] = ()) -> BulkWriteError:
    return BulkWriteError(
        {"writeErrors": [{"code": code} for code in codes], "writeConcernErrors": list(concern)}
    )


@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("gone"),
        NetworkTimeout("late"),
        NotPrimaryError("stepped down"),
        ServerSelectionTimeoutError("nobody there"),
        ExecutionTimeout("late", 50),
        WriteConcernError("no majority", 64),
        # The server forgot the cursor when it restarted, or killed the query when it stepped down.
        CursorNotFound("which cursor", 43),
        OperationFailure("killed", 175),
        OperationFailure("shutting down", 91),
        OperationFailure("interrupted", 11600),
        OperationFailure("interrupted", 11602),
        # The change stream's place is no longer in the oplog.
        OperationFailure("history lost", 286),
        bulk(189),
        bulk(11000, 11602),
        bulk(concern=({"code": 64},)),
    ],
    ids=repr,
)
def test_an_outage_is_named_and_keeps_its_cause(error: PyMongoError) -> None:
    with pytest.raises(StoreUnavailable) as raised, outages_named():
        raise error

    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [OperationFailure("Authentication failed.", 18), OperationFailure("no rights", 13)],
    ids=repr,
)
def test_a_refusal_is_named_without_what_was_sent(error: OperationFailure) -> None:
    refused = pytest.raises(StoreRefused, match="Check the user, the password")
    with refused as raised, outages_named():
        raise error

    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [OperationFailure("bad query", 2), bulk(11000)], ids=repr)
def test_a_mistake_passes_through(error: PyMongoError) -> None:
    with pytest.raises(type(error)), outages_named():
        raise error


def test_a_method_may_be_decorated_and_returns_what_it_returns() -> None:
    @outages_named()
    def answer(fails: bool) -> int:
        if fails:
            raise AutoReconnect("gone")
        return 42

    assert [answer(False), answer(False)] == [42, 42]
    with pytest.raises(StoreUnavailable):
        answer(True)
    with pytest.raises(StoreUnavailable):
        answer(True)


def test_the_sentence_names_the_hosts_and_not_all_that_the_driver_knows() -> None:
    client: MongoClient[Any] = MongoClient(
        "mongodb://127.0.0.1:1,127.0.0.1:2/?replicaSet=rs0", serverSelectionTimeoutMS=1
    )

    with client, pytest.raises(StoreUnavailable) as raised, outages_named():
        client.admin.command("ping")

    sentence = str(raised.value)
    assert "127.0.0.1:1: " in sentence
    assert "127.0.0.1:2: " in sentence
    assert "Start it, or bring it back; else check MONGO_URI." in sentence
    assert "Topology" not in sentence
    assert "configured" not in sentence


def test_the_sentence_names_hosts_that_answered_without_a_primary() -> None:
    seed = "<ServerDescription ('db1', 27017) server_type: RSSecondary>"
    text = f'No replica set members match selector "Primary()", Timeout: 5.0s, Topology: {seed}'

    with pytest.raises(StoreUnavailable) as raised, outages_named():
        raise ServerSelectionTimeoutError(text)

    assert '(db1:27017: No replica set members match selector "Primary()")' in str(raised.value)
