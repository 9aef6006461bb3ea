"""The events that a log line can tell of: each call of a logger of ours names one.

`logger.info("a pause has ended", extra=events.TEMPLATE_RESUMED(job_id=...))`. The names are stable:
alerts and searches may rely on them, on no sentence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a role tells."""

    name: str
    level: int
    meaning: str
    """For operators; docs/logs.md has it too."""

    def __call__(self, **fields: Any) -> dict[str, Any]:
        """What a logger is given as `extra`.

        Args:
            fields: further keys of the line; those that docs/logs.md lists mean what it says.
        """
        return {"event": self.name, **fields}


# Processes
ROLE_STARTED: Final = Event("role.started", INFO, "the process works; its probes answer")
ROLE_STOPPING: Final = Event("role.stopping", INFO, "SIGTERM or SIGINT came")
ROLE_STOPPED: Final = Event("role.stopped", INFO, "the process ends in good order")
THREAD_FAILED: Final = Event("thread.failed", ERROR, "a thread ended by an error: a bug")
PROBE_ANSWERED: Final = Event("probe.answered", DEBUG, "a request on the port of the probes")
PROBES_SHARED: Final = Event("probes.shared", DEBUG, "another worker of the API answers the probes")
OUTAGE_BEGAN: Final = Event("outage.began", WARNING, "a step failed and is tried until it works")
OUTAGE_OVER: Final = Event("outage.over", INFO, "what was tried again works")
LIBRARY: Final = Event("library", WARNING, "a line of a library, of any level")

# API and pages
API_STARTED: Final = Event("api.started", INFO, "it listens")
API_WITHOUT_STORE: Final = Event("api.without_store", WARNING, "it starts; MongoDB is away")
REQUEST_ANSWERED: Final = Event("request.answered", DEBUG, "method, route, status, time")
REQUEST_UNAVAILABLE: Final = Event(
    "request.unavailable", WARNING, "answered with 503, as MongoDB is away or not set up"
)
REQUEST_FAILED: Final = Event("request.failed", ERROR, "an error before Django: a bug")
CLIENT_GONE: Final = Event("client.gone", DEBUG, "a client left before its answer")
CLIENT_SILENT: Final = Event("client.silent", INFO, "a connection that sent nothing was closed")
PAGE_UNAVAILABLE: Final = Event("page.unavailable", WARNING, "the same as request.unavailable")
MEMBERSHIP_UNREADABLE: Final = Event(
    "membership.unreadable", WARNING, "a user's rights were edited into something that is none"
)
LOGIN_REFUSED: Final = Event(
    "login.refused",
    WARNING,
    "too many failed logins from `address`, for `user` or for all; once in a window",
)

# Scheduler and fan-out worker
LEADER_ELECTED: Final = Event("leader.elected", INFO, "this scheduler leads; `term`")
LEADER_NOT_RENEWED: Final = Event(
    "leader.not_renewed", WARNING, "etcd or Redis did not answer the leader; it tries again"
)
LEADER_LOST: Final = Event("leader.lost", WARNING, "the term ended; nobody leads for a while")
LEADER_RESIGNED: Final = Event("leader.resigned", INFO, "the term ended in good order")
JOBS_QUEUED: Final = Event("jobs.queued", DEBUG, "dispatched in one step; `job_ids`, `request_ids`")
JOBS_REPEATED: Final = Event(
    "jobs.repeated", INFO, "a new leader sends again what no executor has taken"
)
DISPATCH_UNCONFIRMED: Final = Event(
    "dispatch.unconfirmed", WARNING, "Kafka did not take messages; their jobs are pending again"
)
RUNS_UNSTORED: Final = Event(
    "runs.unstored", ERROR, "runs of templates could not be stored together: one by one"
)
TEMPLATE_RESUMED: Final = Event("template.resumed", INFO, "the end of a pause came")
TEMPLATE_DEAD: Final = Event(
    "template.dead_lettered", ERROR, "it can no longer be fired, for the reason given"
)
FANOUT_OWNS: Final = Event("fanout.owns", INFO, "the shards of this worker changed")
MINUTE_DELAYED: Final = Event("minute.delayed", WARNING, "triggers wait: Kafka is away")
TRIGGERS_UNCONFIRMED: Final = Event(
    "triggers.unconfirmed", WARNING, "triggers not known to have reached Kafka"
)
TRIGGERS_JUNK: Final = Event("triggers.junk", WARNING, "messages that are no triggers")

# Executor
MESSAGES_JUNK: Final = Event("messages.junk", WARNING, "messages that name no job")
MESSAGES_STRAY: Final = Event("messages.stray", WARNING, "messages in another type's topic")
MESSAGES_NOT_TAKEN: Final = Event(
    "messages.not_taken", ERROR, "a batch could not be taken in; the reaper sends it again"
)
STARTS_FAILED: Final = Event("starts.failed", ERROR, "claimed jobs could not be started")
ATTEMPT_ENDED: Final = Event("attempt.ended", DEBUG, "`outcome`; its record has more")
ATTEMPT_FAILED: Final = Event(
    "attempt.failed", INFO, "`outcome` and `error`; the job is tried again"
)
JOB_DEAD: Final = Event("job.dead_lettered", WARNING, "the same, and it is tried no more")
ATTEMPT_BROKEN: Final = Event("attempt.broken", ERROR, "the executor failed, not the handler")
CLAIM_LOST: Final = Event("job.claim_lost", INFO, "cancelled, or the lease ended")
JOB_INTERRUPTED: Final = Event("job.interrupted", WARNING, "DRAIN_TIMEOUT was over; handed back")
JOBS_HANDED_BACK: Final = Event("jobs.handed_back", INFO, "waiting jobs, at the end")
JOBS_LEFT: Final = Event("jobs.left", WARNING, "not handed back; the reaper takes them")
JOBS_TOO_MANY: Final = Event("jobs.too_many", INFO, "jobs became slower; some go back")
ENDS_REFUSED: Final = Event("ends.refused", ERROR, "ends are written one by one")
END_REFUSED: Final = Event("end.refused", ERROR, "the job's lease ends, its attempt is lost")
ENDS_LOST: Final = Event("ends.lost", ERROR, "MongoDB was away until the very end")
HEARTBEAT_MISSED: Final = Event("heartbeat.missed", WARNING, "MongoDB is away; leases hold on")
HEARTBEAT_FAILED: Final = Event("heartbeat.failed", ERROR, "an unexpected error: a bug")
STILL_REGISTERED: Final = Event("node.left_behind", WARNING, "shown as alive for some seconds")
HANDLER_LOGGED: Final = Event("handler", INFO, "a line of a handler, of any level")
HANDLER_LINES_REFUSED: Final = Event("handler_lines.refused", ERROR, "not kept: a bug")
HANDLER_LINES_LOST: Final = Event("handler_lines.lost", ERROR, "MongoDB was away too long")
DELIVERY_ANSWERED: Final = Event("delivery.answered", INFO, "a target answered, with this status")
DELIVERY_SENT: Final = Event("delivery.sent", INFO, "Kafka has the message")
STATISTICS_REFUSED: Final = Event("statistics.refused", WARNING, "counts are missing")
STATISTICS_LOST: Final = Event("statistics.lost", WARNING, "those of the last seconds")

# Reaper
JOBS_RECOVERED: Final = Event("jobs.recovered", WARNING, "taken back from the dead; `sweep`")
SWEEP_FAILED: Final = Event("sweep.failed", ERROR, "an unexpected error: a bug")
BULK_GIVEN_UP: Final = Event("bulk.given_up", ERROR, "a bulk operation that cannot go on")
DEAD_LETTERS_UNANNOUNCED: Final = Event(
    "dead_letters.unannounced", WARNING, "the reaper announces them later, some perhaps twice"
)

# MongoDB and Kafka, in any role
JOB_UNREADABLE: Final = Event("job.unreadable", ERROR, "it became a dead letter")
JOB_IMMOVABLE: Final = Event("job.immovable", ERROR, "MongoDB refuses its move: a dead letter")
JOB_STUCK: Final = Event("job.stuck", ERROR, "it refuses even that: repair or delete it")
POLICY_UNREADABLE: Final = Event(
    "policy.unreadable", WARNING, "an edited retry policy; the default is used"
)
RECORD_UNREADABLE: Final = Event("record.unreadable", WARNING, "left out of a list")
KAFKA_ERROR: Final = Event("kafka.error", WARNING, "what Kafka's client reports, once in 30 s")
KAFKA_REFUSES: Final = Event("kafka.refuses", WARNING, "a message that Kafka never takes")
PRODUCER_RENEWED: Final = Event("kafka.producer_renewed", WARNING, "the old one was of no use")
GROUP_LEFT_SILENTLY: Final = Event("kafka.left_silently", WARNING, "Kafka was away at the end")

# Tracing, in any role
SPANS_LOST: Final = Event(
    "spans.lost", WARNING, "nobody takes them, or they cannot be made; nothing else suffers"
)
SPANS_TAKEN: Final = Event("spans.taken", INFO, "somebody takes them again")

# Tools
ASKING_AGAIN: Final = Event("load.asking_again", DEBUG, "the API did not answer the load test")

ALL: Final = tuple(each for each in list(globals().values()) if isinstance(each, Event))
