"""The indexes, each with the query that needs it.

Every index that holds `status` costs a write on each move (docs/benchmarks.md), so there are few
and nearly all are partial.
"""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure

from jobs.errors import NotProvisioned
from jobs.lifecycle import IN_FLIGHT, LIVE, Status
from jobs.repository.documents import KIND, RUNNABLE, TEMPLATE

DISPATCH: Final = "dispatch"
IN_FLIGHT_INDEX: Final = "in_flight"
TEMPLATES_DUE: Final = "templates_due"
LIVE_RUNS: Final = "live_runs"
UNANNOUNCED: Final = "unannounced"
RETRYING: Final = "retrying"
RETRYING_OF_TENANT: Final = "retrying_of_tenant"
CANCELLED: Final = "cancelled"
CANCELLED_OF_TENANT: Final = "cancelled_of_tenant"
TEMPLATE_RUNS: Final = "template_runs"
DEAD_LETTERS: Final = "dead_letters"
DEAD_LETTERS_OF_TENANT: Final = "dead_letters_of_tenant"
TENANT_LIST: Final = "tenant_list"
NEWEST: Final = "newest"
EXECUTIONS_OF_TEMPLATE: Final = "template"
EXECUTIONS_OF_DEFINITION: Final = "definition"
TEMPLATES_BY_DEFINITION: Final = "templates_by_definition"
TEMPLATES: Final = "templates"
TEMPLATES_OF_TENANT: Final = "templates_of_tenant"
PAUSES: Final = "pauses"
TURN: Final = "turn"
STATISTICS_INDEX: Final = "stretch"
SCHEDULES: Final = {
    "schedules": (),
    "schedules_by_definition": ("definition",),
    "schedules_by_tag": ("tags",),
}
"""The indexes of one-time schedules, and what each finds them by beside the tenant."""

_IN_FLIGHT = [str(status) for status in IN_FLIGHT]
_LIVE = [str(status) for status in LIVE]
_GROUPED_BY = [("jobType", ASCENDING), ("definition", ASCENDING), ("errorGroup", ASCENDING)]

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
    # Dead letters for people, the latest end first: of all tenants, of some. What follows `_id` is
    # for the groups, which are counted without fetching a document; so is the status, which MongoDB
    # would otherwise look for in the document, though the index holds no other.
    IndexModel(
        [
            ("status", ASCENDING),
            ("finishedAt", DESCENDING),
            ("_id", DESCENDING),
            ("tenantId", ASCENDING),
            *_GROUPED_BY,
        ],
        name=DEAD_LETTERS,
        partialFilterExpression={"status": str(Status.DLQ)},
    ),
    IndexModel(
        [
            ("tenantId", ASCENDING),
            ("status", ASCENDING),
            ("finishedAt", DESCENDING),
            ("_id", DESCENDING),
            *_GROUPED_BY,
        ],
        name=DEAD_LETTERS_OF_TENANT,
        partialFilterExpression={"status": str(Status.DLQ)},
    ),
    # Lists of all tenants, newest first. It is touched by no move: +0.4 % of their time.
    IndexModel([("createdAt", DESCENDING), ("_id", DESCENDING)], name=NEWEST),
    # The same for what few jobs come to, for all tenants and for one.
    *(
        IndexModel(
            [
                *whose,
                ("status", ASCENDING),
                ("createdAt", DESCENDING),
                ("_id", DESCENDING),
                *also,
            ],
            name=name,
            partialFilterExpression=which,
        )
        for names, also, which in (
            (
                (RETRYING, RETRYING_OF_TENANT),
                [("attempts", ASCENDING)],
                {"status": str(Status.PENDING), KIND: RUNNABLE, "attempts": {"$gt": 0}},
            ),
            ((CANCELLED, CANCELLED_OF_TENANT), [], {"status": str(Status.CANCELLED)}),
        )
        for name, whose in zip(names, ([], [("tenantId", ASCENDING)]), strict=True)
    ),
    # Lists of a tenant, newest first, and the cursor; then the same for its dead letters and for
    # one template's runs.
    IndexModel(
        [("tenantId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name=TENANT_LIST,
    ),
    IndexModel(
        [("tenantId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name="tenant_dead_letters",
        partialFilterExpression={"status": str(Status.DLQ)},
    ),
    IndexModel(
        [("templateId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name=TEMPLATE_RUNS,
        partialFilterExpression={"templateId": {"$exists": True}},
    ),
    # Whether templates use a definition, before it is deleted.
    IndexModel(
        [("tenantId", ASCENDING), ("definition", ASCENDING)],
        name=TEMPLATES_BY_DEFINITION,
        partialFilterExpression={KIND: TEMPLATE, "definition": {"$exists": True}},
    ),
    # Templates for people, newest first: of all tenants, of some. What follows `_id` is filtered by
    # without fetching a document, as of 100,000 few may match. Firing touches neither.
    *(
        IndexModel(
            [
                *((each, ASCENDING) for each in by),
                ("createdAt", DESCENDING),
                ("_id", DESCENDING),
                *((each, ASCENDING) for each in ("status", "jobType", "definition")),
                ("idempotencyKey", ASCENDING),
            ],
            name=name,
            partialFilterExpression={KIND: TEMPLATE},
        )
        for name, by in ((TEMPLATES, ()), (TEMPLATES_OF_TENANT, ("tenantId",)))
    ),
    # Pauses that end by themselves.
    IndexModel(
        [("pausedUntil", ASCENDING)],
        name=PAUSES,
        partialFilterExpression={"pausedUntil": {"$exists": True}},
    ),
    # One-time schedules, the latest due first: of a tenant, of one definition, with one tag. Jobs
    # without a definition are in none of them.
    *(
        IndexModel(
            [
                ("tenantId", ASCENDING),
                *((each, ASCENDING) for each in by),
                ("scheduledAt", DESCENDING),
                ("_id", DESCENDING),
            ],
            name=name,
            partialFilterExpression={
                KIND: RUNNABLE,
                **{each: {"$exists": True} for each in ("definition", *by)},
            },
        )
        for name, by in SCHEDULES.items()
    ),
    # RETENTION_*: absent, and so free of cost, where nothing is set.
    IndexModel([("expiresAt", ASCENDING)], name="expiry", sparse=True, expireAfterSeconds=0),
)
NODES: Final = (
    # A process that left without a word is forgotten after a day.
    IndexModel([("seenAt", ASCENDING)], name="seen", expireAfterSeconds=86_400),
)
DEFINITIONS: Final = (
    IndexModel(
        [("tenantId", ASCENDING), ("createdAt", DESCENDING), ("_id", DESCENDING)],
        name=TENANT_LIST,
    ),
    IndexModel([("createdAt", DESCENDING), ("_id", DESCENDING)], name=NEWEST),
)
BUCKETS: Final = (IndexModel([("openedAt", ASCENDING)], name="age", expireAfterSeconds=7 * 86_400),)
EXECUTIONS: Final = (
    # Lists, newest first, and the cursor. Each attempt pays for the first; the others cost nothing
    # where no template or definition is concerned. Those of a job are a range of `_id`.
    IndexModel(
        [("tenantId", ASCENDING), ("startedAt", DESCENDING), ("_id", DESCENDING)],
        name=TENANT_LIST,
    ),
    IndexModel(
        [("templateId", ASCENDING), ("startedAt", DESCENDING), ("_id", DESCENDING)],
        name=EXECUTIONS_OF_TEMPLATE,
        partialFilterExpression={"templateId": {"$exists": True}},
    ),
    IndexModel(
        [
            ("tenantId", ASCENDING),
            ("definition", ASCENDING),
            ("startedAt", DESCENDING),
            ("_id", DESCENDING),
        ],
        name=EXECUTIONS_OF_DEFINITION,
        partialFilterExpression={"definition": {"$exists": True}},
    ),
    # RETENTION_EXECUTIONS.
    IndexModel([("expiresAt", ASCENDING)], name="expiry", sparse=True, expireAfterSeconds=0),
)
# RETENTION_LOGS.
ATTEMPT_LOGS: Final = (IndexModel([("expiresAt", ASCENDING)], name="expiry", expireAfterSeconds=0),)
AUDIT_FOUND_BY: Final = {
    "target": ("targets",),
    "tenant_author": ("tenantId", "author"),
    "tenant_action": ("tenantId", "action"),
    TENANT_LIST: ("tenantId",),
    "author": ("author",),
    "action": ("action",),
}
"""The indexes of the audit log, and what each finds entries by; the best first."""
# Entries are written at the pace of people, and must be found among millions.
AUDIT_LOG: Final = tuple(
    IndexModel(
        [*((field, ASCENDING) for field in by), ("at", DESCENDING), ("_id", DESCENDING)], name=name
    )
    for name, by in {NEWEST: (), **AUDIT_FOUND_BY}.items()
)
STATISTICS: Final = (
    # What a count is added to, and the charts: a range of time for each tenant, null for all.
    IndexModel(
        [
            ("tenantId", ASCENDING),
            ("resolution", ASCENDING),
            ("at", ASCENDING),
            ("jobType", ASCENDING),
        ],
        name=STATISTICS_INDEX,
        unique=True,
    ),
    IndexModel([("expiresAt", ASCENDING)], name="expiry", expireAfterSeconds=0),
)
BULK_OPERATIONS: Final = (
    IndexModel([("startedAt", DESCENDING), ("_id", DESCENDING)], name="newest"),
    # Whose turn it is. Only those that go on have one.
    IndexModel([("turnAt", ASCENDING)], name=TURN, sparse=True),
)
LOGIN_ATTEMPTS: Final = (
    # A window that is over counts no more; it is deleted within a minute.
    IndexModel([("expiresAt", ASCENDING)], name="expiry", expireAfterSeconds=0),
)
COLLECTIONS: Final[Mapping[str, Sequence[IndexModel]]] = {
    "jobs": JOBS,
    "nodes": NODES,
    "definitions": DEFINITIONS,
    "schedule_buckets": BUCKETS,
    "executions": EXECUTIONS,
    "attempt_logs": ATTEMPT_LOGS,
    "audit_log": AUDIT_LOG,
    "bulk_operations": BULK_OPERATIONS,
    "statistics": STATISTICS,
    "login_attempts": LOGIN_ATTEMPTS,
}
OBSOLETE: Final[Mapping[str, AnyCollection[str]]] = {"jobs": ("due",)}
"""Those of earlier versions, whose roles read by them and start with nothing less: they go last.
A changed index gets a new name."""


# IndexOptionsConflict and IndexKeySpecsConflict in MongoDB's error_codes.yml.
_CONFLICTS: Final = frozenset({85, 86})


def ensure(database: Database[dict[str, Any]]) -> None:
    """Create what is missing. Repeatable.

    Raises:
        NotProvisioned: some are in the way, which it names. All others are there then.
    """
    in_the_way: list[str] = []
    for collection, models in COLLECTIONS.items():
        if not _create(database[collection], models):
            # Together they fail together.
            refused = [each for each in models if not _create(database[collection], [each])]
            in_the_way += (
                f"db.{collection}.dropIndex({_rival(database[collection], each)!r})"
                for each in refused
            )
    if in_the_way:
        raise NotProvisioned(
            "MongoDB has other indexes where ours must be. Drop them in MongoDB: "
            f"{'; '.join(in_the_way)}; then run migrate again."
        )


def drop_obsolete(database: Database[dict[str, Any]]) -> list[str]:
    """Drop the indexes that only earlier versions use.

    Returns:
        Those that were there, as `collection.name`.
    """
    there = [
        (collection, name)
        for collection, names in OBSOLETE.items()
        for name in database[collection].index_information()
        if name in names
    ]
    for collection, name in there:
        database[collection].drop_index(name)
    return [f"{collection}.{name}" for collection, name in there]


def _create(collection: Collection[dict[str, Any]], models: Sequence[IndexModel]) -> bool:
    try:
        collection.create_indexes(list(models))
    except OperationFailure as exc:
        if exc.code not in _CONFLICTS:
            raise
        return False
    return True


def _rival(collection: Collection[dict[str, Any]], model: IndexModel) -> str:
    """The index that has the name of another, or else its keys."""
    there, wanted = collection.index_information(), model.document["name"]
    if wanted in there:
        return str(wanted)
    keys = [*model.document["key"].items()]
    return next((name for name, each in there.items() if each["key"] == keys), str(wanted))


def missing(database: Database[dict[str, Any]]) -> list[str]:
    """Names of the indexes that `ensure` would create."""
    return [
        f"{collection}.{name}"
        for collection, models in COLLECTIONS.items()
        for there in [database[collection].index_information()]
        for name in (model.document["name"] for model in models)
        if name not in there
    ]
