"""The indexes, each with the query that needs it.

Every index that holds `status` costs a write on each move (docs/benchmarks.md), so there are few
and nearly all are partial.
"""

from __future__ import annotations

from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from jobs.lifecycle import IN_FLIGHT, LIVE, Status
from jobs.repository.documents import KIND, RUNNABLE, TEMPLATE

DISPATCH: Final = "dispatch"
IN_FLIGHT_INDEX: Final = "in_flight"
TEMPLATES_DUE: Final = "templates_due"
LIVE_RUNS: Final = "live_runs"
UNANNOUNCED: Final = "unannounced"

_IN_FLIGHT = [str(status) for status in IN_FLIGHT]
_LIVE = [str(status) for status in LIVE]

JOBS: Final = (
    # The scheduler's claim: one range per type, in the order of dispatch, nothing sorted in memory.
    # The shard is for fan-out workers, who skip what others own without fetching it.
    IndexModel(
        [
            ("jobType", ASCENDING),
            ("priority", DESCENDING),
            ("scheduledAt", ASCENDING),
            ("shard", ASCENDING),
        ],
        name=DISPATCH,
        partialFilterExpression={"status": str(Status.PENDING), KIND: RUNNABLE},
    ),
    # Credit and the reaper's sweeps. Only on the type: moves among the three do not touch it.
    IndexModel(
        [("jobType", ASCENDING)],
        name=IN_FLIGHT_INDEX,
        partialFilterExpression={"status": {"$in": _IN_FLIGHT}},
    ),
    # Cron firing.
    IndexModel(
        [("scheduledAt", ASCENDING)],
        name=TEMPLATES_DUE,
        partialFilterExpression={"status": str(Status.PENDING), KIND: TEMPLATE},
    ),
    # `overlap: skip`.
    IndexModel(
        [("templateId", ASCENDING)],
        name=LIVE_RUNS,
        partialFilterExpression={"templateId": {"$exists": True}, "status": {"$in": _LIVE}},
    ),
    # Dead letters whose message to `jobs.dlq` is not known to have arrived.
    IndexModel(
        [("dlqPublishedAt", ASCENDING), ("finishedAt", ASCENDING)],
        name=UNANNOUNCED,
        partialFilterExpression={"status": str(Status.DLQ)},
    ),
    # Lists of a tenant, newest first, and the cursor; then the same for its dead letters and for
    # one template's runs.
    IndexModel(
        [("tenantId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name="tenant_list",
    ),
    IndexModel(
        [("tenantId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name="tenant_dead_letters",
        partialFilterExpression={"status": str(Status.DLQ)},
    ),
    IndexModel(
        [("templateId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name="template_runs",
        partialFilterExpression={"templateId": {"$exists": True}},
    ),
    # RETENTION_*: absent, and so free of cost, where nothing is set.
    IndexModel([("expiresAt", ASCENDING)], name="expiry", sparse=True, expireAfterSeconds=0),
)
NODES: Final = (
    # A process that left without a word is forgotten after a day.
    IndexModel([("seenAt", ASCENDING)], name="seen", expireAfterSeconds=86_400),
)
# RETENTION_LOGS.
ATTEMPT_LOGS: Final = (IndexModel([("expiresAt", ASCENDING)], name="expiry", expireAfterSeconds=0),)
BUCKETS: Final = (IndexModel([("openedAt", ASCENDING)], name="age", expireAfterSeconds=7 * 86_400),)
OBSOLETE: Final = ("due",)
"""Of earlier versions. A changed index gets a new name, so that it is there before the old goes."""


def ensure(database: Database[dict[str, Any]]) -> None:
    """Create what is missing, and drop what is obsolete. Repeatable."""
    database["jobs"].create_indexes(list(JOBS))
    database["nodes"].create_indexes(list(NODES))
    database["schedule_buckets"].create_indexes(list(BUCKETS))
    for name in OBSOLETE:
        if name in database["jobs"].index_information():
            database["jobs"].drop_index(name)
    database["attempt_logs"].create_indexes(list(ATTEMPT_LOGS))


def missing(database: Database[dict[str, Any]]) -> list[str]:
    """Names of the indexes that `ensure` would create."""
    there = set(database["jobs"].index_information())
    return [model.document["name"] for model in JOBS if model.document["name"] not in there]
