"""What MongoDB says about itself, for `manage.py doctor`: nothing here changes anything."""

from __future__ import annotations

import time
from collections.abc import Collection as AnyCollection
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pymongo
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from jobs.errors import ConfigError
from jobs.repository.documents import FIELDS
from jobs.repository.indexes import COLLECTIONS, NEWEST, OBSOLETE
from jobs.repository.outages import outages_named

_PATIENCE: Final = 5
"""Seconds for each question."""
_SAMPLE: Final = 1000
# https://www.mongodb.com/docs/manual/reference/error-codes/
_NO_SUCH_COLLECTION: Final = 26
_NO_REPLICATION: Final = 76
# https://www.mongodb.com/docs/manual/reference/command/hello/#sharded-instances
_ROUTER: Final = "isdbgrid"
# Primary, secondary, arbiter.
_AT_WORK: Final = frozenset({1, 2, 7})


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the replica set, as the primary sees it."""

    name: str
    state: str
    is_healthy: bool
    """It answers, and does its part."""
    is_voter: bool
    """Its confirmation counts: it votes and holds data."""
    lag: timedelta | None
    """How far behind the primary it is; None: it is the primary, or nobody knows."""


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """Who holds the data, and who must confirm a write."""

    name: str
    members: tuple[Member, ...]
    majority: int
    """Members that must confirm a write."""
    is_majority_journaled: bool
    """Whether they do so when it is in their journal."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """How the indexes differ from those that `migrate` makes, each as `collection.name`."""

    missing: tuple[str, ...]
    extra: tuple[str, ...]
    obsolete: tuple[str, ...]
    """Those that only earlier versions use."""
    building: tuple[str, ...]
    changed: tuple[str, ...]
    """There, but with other keys."""


@dataclass(frozen=True, slots=True)
class Oplog:
    """How far back a member that was away can catch up."""

    window: timedelta
    is_full: bool
    """It forgets its beginning already; until then the window still grows."""


class Facts:
    """Questions to MongoDB. Each takes 5 s at the most and may raise `StoreUnavailable`."""

    def __init__(
        self, client: MongoClient[dict[str, Any]], database: Database[Any], uri: str
    ) -> None:
        self._client = client
        self._uri = uri
        self._database = database

    def version(self) -> str:
        """MongoDB's own version."""
        with _asking():
            return str(self._client.admin.command("buildInfo")["version"])

    def is_sharded(self) -> bool:
        """Whether a router answers, which tells nothing about members."""
        with _asking():
            return self._client.admin.command("hello").get("msg") == _ROUTER

    def clock_offset(self, member: str | None = None) -> timedelta:
        """How far the clock of the primary, or of a member, is ahead of this host's.

        Args:
            member: host:port, as the members name each other; None: the primary.
        """
        if member is None:
            return _offset(self._client)
        client: MongoClient[dict[str, Any]] = MongoClient(
            _address_of(member, self._uri), directConnection=True
        )
        with client:
            return _offset(client)

    def replica_set(self) -> ReplicaSet:
        """Members and majority. Needs the right to ask (`clusterMonitor`).

        Raises:
            ConfigError: it is none.
        """
        try:
            with _asking():
                status = self._client.admin.command("replSetGetStatus")
                config = self._client.admin.command("replSetGetConfig")["config"]
        except OperationFailure as exc:
            if exc.code != _NO_REPLICATION:
                raise
            raise ConfigError(
                "MongoDB is no replica set, which change streams and transactions need. Start it "
                "with --replSet, also where it is alone."
            ) from exc
        return ReplicaSet(
            status["set"],
            tuple(_members(status["members"], _voters(config["members"]))),
            int(status["writeMajorityCount"]),
            bool(config.get("writeConcernMajorityJournalDefault", True)),
        )

    def oplog(self) -> Oplog:
        """The oplog's window. Needs the right to read the database `local`."""
        oplog = self._client["local"]["oplog.rs"]
        with _asking():
            first, last = (
                oplog.find_one(sort=[("$natural", direction)], projection={"wall": True})
                for direction in (1, -1)
            )
            size = self._client["local"].command("collStats", "oplog.rs")
        window = last["wall"] - first["wall"] if first and last else timedelta(0)
        return Oplog(window, is_full=size["size"] >= 0.9 * size["maxSize"])

    def indexes(self) -> IndexState:
        """How the indexes are."""
        kinds = ("missing", "extra", "obsolete", "building", "changed")
        found: dict[str, list[str]] = {kind: [] for kind in kinds}
        for collection, models in COLLECTIONS.items():
            wanted = {model.document["name"]: dict(model.document["key"]) for model in models}
            there, building = self._indexes_of(collection)
            found["building"] += (f"{collection}.{name}" for name in sorted(building))
            found["missing"] += (f"{collection}.{name}" for name in wanted if name not in there)
            for name, keys in there.items():
                if name in OBSOLETE.get(collection, ()):
                    found["obsolete"].append(f"{collection}.{name}")
                elif name not in wanted:
                    found["extra"].append(f"{collection}.{name}")
                elif keys != wanted[name]:
                    found["changed"].append(f"{collection}.{name}")
        return IndexState(**{kind: tuple(names) for kind, names in found.items()})

    def unknown_fields(self) -> Mapping[str, int]:
        """Fields of the newest 1,000 jobs that Chronos does not know, with how many have each."""
        with _asking():
            counted = self._database["jobs"].aggregate(
                [
                    {"$sort": {"createdAt": -1, "_id": -1}},
                    {"$limit": _SAMPLE},
                    {"$project": {"field": {"$objectToArray": "$$ROOT"}}},
                    {"$unwind": "$field"},
                    {"$match": {"field.k": {"$nin": sorted(FIELDS)}}},
                    {"$group": {"_id": "$field.k", "count": {"$sum": 1}}},
                    {"$sort": {"_id": 1}},
                ],
                hint=NEWEST,
            )
            return {str(each["_id"]): int(each["count"]) for each in counted}

    def _indexes_of(self, collection: str) -> tuple[Mapping[str, Mapping[str, Any]], set[str]]:
        try:
            with _asking():
                answer = self._database.command(
                    {
                        "listIndexes": collection,
                        "includeBuildUUIDs": True,
                        "cursor": {"batchSize": 1000},
                    }
                )
        except OperationFailure as exc:
            if exc.code != _NO_SUCH_COLLECTION:
                raise
            return {}, set()
        there: dict[str, Mapping[str, Any]] = {}
        building: set[str] = set()
        for index in answer["cursor"]["firstBatch"]:
            spec = index.get("spec", index)
            if spec["name"] == "_id_":
                continue
            there[spec["name"]] = dict(spec["key"])
            if "buildUUID" in index:
                building.add(spec["name"])
        return there, building


@contextmanager
def _asking() -> Iterator[None]:
    with outages_named(), pymongo.timeout(_PATIENCE):
        yield


def _offset(client: MongoClient[dict[str, Any]]) -> timedelta:
    with _asking():
        # Connects, which takes longer than what is measured.
        client.admin.command("ping")
        asked = time.time()
        there: datetime = client.admin.command("hello")["localTime"]
        here = datetime.fromtimestamp((asked + time.time()) / 2, UTC)
    return there.replace(tzinfo=UTC) - here


def _address_of(member: str, uri: str) -> str:
    """The address of one member, reached as `uri` reaches all of them."""
    # urlsplit of newer Pythons refuses an IPv6 address behind another host.
    scheme, _, rest = uri.partition("://")
    authority, _, query = rest.partition("?")
    hosts, _, database = authority.partition("/")
    user, at, _ = hosts.rpartition("@")
    if scheme == "mongodb+srv":
        query = f"tls=true&authSource=admin&{query}" if query else "tls=true&authSource=admin"
    return f"mongodb://{user}{at}{member}/{database}{'?' if query else ''}{query}"


def _voters(configured: Sequence[Mapping[str, Any]]) -> set[int]:
    return {each["_id"] for each in configured if each["votes"] and not each["arbiterOnly"]}


def _members(found: Sequence[Mapping[str, Any]], voters: AnyCollection[int]) -> Iterator[Member]:
    primary = next((each["optimeDate"] for each in found if each["stateStr"] == "PRIMARY"), None)
    for each in found:
        is_healthy = each["health"] == 1 and each["state"] in _AT_WORK
        lag = None
        if primary is not None and each["stateStr"] == "SECONDARY":
            lag = max(primary - each["optimeDate"], timedelta(0))
        yield Member(each["name"], each["stateStr"], is_healthy, each["_id"] in voters, lag)
