"""The counts that charts are drawn from, one document for each stretch of time and job type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as AnyCollection
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pymongo import UpdateOne, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.repository.indexes import STATISTICS_INDEX
from jobs.repository.outages import is_outage, outages_named
from jobs.repository.records import DUPLICATE_KEY
from jobs.statistics import Resolution, Stretch, Tally

# One for each process that adds to the same document and may have to repeat it after an outage.
_BATCHES_KEPT: Final = 32
_READ_MS: Final = 5_000
# A chart has up to 96 stretches: enough for 200 pairs of tenant and job type.
_READ_LIMIT: Final = 20_000
_COUNTS: Final = ("completed", "failed", "dead", "milliseconds")


class StatisticsStore:
    """Adds and reads."""

    def __init__(self, collection: Collection[dict[str, Any]]) -> None:
        # A failover may take the last seconds of a chart, never of a job.
        self._statistics = collection.with_options(write_concern=WriteConcern(1))

    @outages_named()
    def add(self, tallies: Mapping[Stretch, Tally], *, batch: str) -> int:
        """Add counts to what is stored, in one round trip, or two where a document is new.

        Args:
            tallies: the counts.
            batch: a fresh id for these counts. The call may be repeated with it: what was added
                under it is not added again.

        Returns:
            How many documents refused, as after an edit by hand; their counts are lost.

        Raises:
            StoreUnavailable: repeat the call.
        """
        if not tallies:
            return 0
        statements = [_statement(*each, batch=batch, upsert=True) for each in tallies.items()]
        errors = self._write(statements)
        # Each is there already. Either somebody else made it just now, then it takes the counts; or
        # it has this batch, then nothing matches.
        again = [error["index"] for error in errors if error["code"] == DUPLICATE_KEY]
        refused = len(errors) - len(again)
        if again:
            counts = list(tallies.items())
            repeated = [counts[index] for index in again]
            refused += len(
                self._write([_statement(*each, batch=batch, upsert=False) for each in repeated])
            )
        return refused

    def _write(self, statements: list[UpdateOne]) -> list[dict[str, Any]]:
        try:
            self._statistics.bulk_write(statements, ordered=False)
        except BulkWriteError as exc:
            if is_outage(exc):
                raise
            errors: list[dict[str, Any]] = exc.details["writeErrors"]
            return errors
        return []

    @outages_named()
    def read(
        self, resolution: Resolution, *, since: datetime, tenants: AnyCollection[str] | None
    ) -> dict[tuple[datetime, str], Tally]:
        """What was counted, by the beginning of the stretch and job type.

        Args:
            resolution: of the chart.
            since: from the stretch that begins then, aware UTC.
            tenants: whose; None: all tenants'.
        """
        found = self._statistics.find(
            {
                "resolution": resolution.label,
                "tenantId": None if tenants is None else {"$in": sorted(tenants)},
                "at": {"$gte": since},
            },
            {"_id": False, "batches": False, "expiresAt": False},
            hint=STATISTICS_INDEX,
        )
        tallies: dict[tuple[datetime, str], Tally] = {}
        for document in found.limit(_READ_LIMIT).max_time_ms(_READ_MS):
            at, job_type = document["at"], document.get("jobType")
            # Somebody may have edited it into something else.
            if isinstance(at, datetime) and isinstance(job_type, str):
                tallies.setdefault((at, job_type), Tally()).add(_tally(document))
        return tallies


def _statement(stretch: Stretch, tally: Tally, *, batch: str, upsert: bool) -> UpdateOne:
    resolution = stretch.resolution
    # Together they are the unique index.
    which = {
        "resolution": resolution.label,
        "tenantId": stretch.tenant_id,
        "at": stretch.at,
        "jobType": stretch.job_type,
    }
    counts = {name: count for name in _COUNTS if (count := getattr(tally, name))}
    lags = {f"lags.{bucket}": count for bucket, count in tally.lags.items()}
    return UpdateOne(
        {**which, "batches": {"$ne": batch}},
        {
            "$inc": counts | lags,
            "$push": {"batches": {"$each": [batch], "$slice": -_BATCHES_KEPT}},
            "$setOnInsert": {"expiresAt": stretch.at + resolution.step + resolution.kept},
        },
        upsert=upsert,
    )


def _tally(document: Mapping[str, Any]) -> Tally:
    lags = document.get("lags")
    return Tally(
        **{name: _count(document.get(name)) for name in _COUNTS},
        lags=Counter(
            {
                int(bucket): _count(count)
                for bucket, count in (lags.items() if isinstance(lags, Mapping) else ())
                if bucket.isdecimal()
            }
        ),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
