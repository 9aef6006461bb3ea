"""Every error the project raises on purpose: one root, one stable code each.

Losing a race is never an error: guarded writes say what they moved (see `jobs.repository`).
"""

from __future__ import annotations


class ChronosError(Exception):
    """Root of all expected errors. The text says what is wrong and what to do."""

    code = "error"


class InvalidJob(ChronosError):
    """A submitted job breaks a rule. The text names the field."""

    code = "invalid"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}" if field else problem)
        self.field = field


class InvalidCron(InvalidJob):
    """A cron expression or time zone that cannot be used."""

    code = "invalid_cron"


class MalformedId(ChronosError):
    """A job id that is not 24 hexadecimal digits."""

    code = "malformed_id"


class JobNotFound(ChronosError):
    """No job has this id."""

    code = "not_found"


class DuplicateKey(ChronosError):
    """The idempotency key is taken. `job_id` is the job that holds it."""

    code = "duplicate_key"

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(f"idempotencyKey {key!r} is already used by job {job_id}")
        self.job_id = job_id


class WrongState(ChronosError):
    """The job's status does not allow this move. `status` is the current one."""

    code = "wrong_state"

    def __init__(self, problem: str, status: str) -> None:
        super().__init__(problem)
        self.status = status


class ConfigError(ChronosError):
    """A setting is missing, unknown or contradicts another. The text names the variable."""

    code = "config"


class StoreUnavailable(ChronosError):
    """MongoDB did not answer in time. Whether a write took effect is unknown: repeat it."""

    code = "store_unavailable"


class StoreRefused(StoreUnavailable):
    """MongoDB does not accept the user, the password or what the user wants to do."""

    code = "store_refused"


class BrokerUnavailable(ChronosError):
    """Kafka did not answer in time."""

    code = "broker_unavailable"


class ElectionUnavailable(ChronosError):
    """The election backend did not answer in time."""

    code = "election_unavailable"


class NotProvisioned(ChronosError):
    """Indexes or topics are missing: run `manage.py migrate`."""

    code = "not_provisioned"


class KeyCollision(ChronosError):
    """Two different idempotency keys hash to one id (odds of about 1 in 2^96 per pair)."""

    code = "key_collision"


class UnreadableJob(ChronosError):
    """A stored document breaks the rules of a job, as after an edit by hand. Names the field."""

    code = "unreadable_job"


class SecretUnreadable(ChronosError):
    """None of ENCRYPTION_KEYS opens a stored secret."""

    code = "secret_unreadable"


class ExecutionNotFound(ChronosError):
    """No attempt has this id."""

    code = "execution_not_found"


class DefinitionNotFound(ChronosError):
    """The tenant has no definition of this name."""

    code = "definition_not_found"


class DefinitionExists(ChronosError):
    """The tenant has a definition of this name already."""

    code = "definition_exists"


class DefinitionInUse(ChronosError):
    """Templates use the definition, so it cannot be deleted."""

    code = "definition_in_use"


class VersionMismatch(ChronosError):
    """The definition has another version than the one that was to be changed."""

    code = "version_mismatch"


class UnreadableDefinition(ChronosError):
    """A stored definition breaks the rules, as after an edit by hand. Names the field."""

    code = "unreadable_definition"


class UnreadableExecution(ChronosError):
    """A stored execution breaks the rules, as after an edit by hand. Names the field."""

    code = "unreadable_execution"
