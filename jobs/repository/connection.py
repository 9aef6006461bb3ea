"""The repository: one connection, and the small stores that share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.errors import ConfigurationError, InvalidURI

from chronos_site.certificates import untimely
from chronos_site.transport import mongo_files
from jobs.errors import ConfigError, NotProvisioned, StoreRefused, StoreUnavailable
from jobs.lifecycle import Status
from jobs.repository import indexes
from jobs.repository.attempt_logs import AttemptLogStore
from jobs.repository.audit_log import AuditLog
from jobs.repository.buckets import BucketStore
from jobs.repository.bulk import BulkStore
from jobs.repository.census import Census
from jobs.repository.claims import ClaimStore
from jobs.repository.clock import StoreClock
from jobs.repository.dead_letter_lists import DeadLetterLists
from jobs.repository.dead_letters import DeadLetterStore
from jobs.repository.definitions import DefinitionStore
from jobs.repository.dispatch import DispatchStore
from jobs.repository.executions import ExecutionStore
from jobs.repository.facts import Facts
from jobs.repository.interventions import InterventionStore
from jobs.repository.job_lists import JobLists
from jobs.repository.jobs import JobStore
from jobs.repository.login_attempts import LoginAttemptStore
from jobs.repository.nodes import NodeStore
from jobs.repository.outages import outages_named
from jobs.repository.overview import OverviewStore
from jobs.repository.recovery import RecoveryStore
from jobs.repository.sealed import SealedStore
from jobs.repository.statistics import StatisticsStore
from jobs.repository.template_changes import TemplateChangeStore
from jobs.repository.template_lists import TemplateListStore
from jobs.repository.templates import TemplateStore
from jobs.repository.uses import UseStore
from jobs.wording import listed

if TYPE_CHECKING:
    from chronos_site.config import StoreConfig

_SELECTION_MS = 5_000
_SOCKET_MS = 20_000
_PING_SECONDS = 2


class Repository:
    """Everything the roles and the API do to the stored jobs. Safe to share between threads."""

    def __init__(self, client: MongoClient[dict[str, Any]], config: StoreConfig) -> None:
        self._client = client
        self._uri = config.uri
        # A hand-written year beyond 9999, or text that is no UTF-8, breaks its own document, not
        # all that is read with it.
        options: CodecOptions[dict[str, Any]] = CodecOptions(
            tz_aware=True,
            datetime_conversion=DatetimeConversion.DATETIME_AUTO,
            unicode_decode_error_handler="replace",
        )
        self._database = client.get_database(
            config.database,
            codec_options=options,
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern("majority"),
        )
        collection = self._database["jobs"]
        self.clock = StoreClock(client)
        self.facts = Facts(client, self._database, config.uri)
        self.jobs = JobStore(collection)
        self.job_lists = JobLists(collection)
        self.executions = ExecutionStore(self._database["executions"], config.retention_executions)
        self.audit_log = AuditLog(self._database["audit_log"])
        self.interventions = InterventionStore(collection, self.executions, self.audit_log)
        self.dispatch = DispatchStore(collection)
        retention = {
            Status.COMPLETED: config.retention_completed,
            Status.DLQ: config.retention_dlq,
        }
        self.claims = ClaimStore(collection, retention)
        self.recovery = RecoveryStore(collection, retention, self.executions)
        self.dead_letters = DeadLetterStore(collection)
        self.dead_letter_lists = DeadLetterLists(collection)
        self.bulk = BulkStore(self._database["bulk_operations"], collection, self.audit_log)
        self.census = Census(collection)
        self.overview = OverviewStore(collection)
        self.templates = TemplateStore(collection, retention)
        self.definitions = DefinitionStore(self._database["definitions"], self.audit_log)
        self.uses = UseStore(collection, self._database["definitions"], self.audit_log)
        self.template_changes = TemplateChangeStore(collection, self.audit_log, self.uses)
        self.template_lists = TemplateListStore(collection)
        self.sealed = (SealedStore(collection), SealedStore(self._database["definitions"]))
        self.nodes = NodeStore(self._database["nodes"])
        self.attempt_logs = AttemptLogStore(self._database["attempt_logs"], config.retention_logs)
        self.buckets = BucketStore(self._database["schedule_buckets"])
        self.statistics = StatisticsStore(self._database["statistics"])
        self.login_attempts = LoginAttemptStore(self._database["login_attempts"])

    @classmethod
    def connect(cls, config: StoreConfig) -> Repository:
        """A repository on the replica set that `config` names. Connects on first use.

        Raises:
            ConfigError: MONGO_URI cannot be read.
        """
        try:
            client: MongoClient[dict[str, Any]] = MongoClient(
                config.uri,
                tz_aware=True,
                serverSelectionTimeoutMS=_SELECTION_MS,
                connectTimeoutMS=_SELECTION_MS,
                socketTimeoutMS=_SOCKET_MS,
                appname="chronos",
            )
        except (ConfigurationError, InvalidURI, ValueError) as exc:
            raise ConfigError(f"MONGO_URI cannot be used: {exc}") from exc
        except OSError as exc:
            # Of the files that it names: nothing is connected to here.
            raise ConfigError(
                f"MONGO_URI cannot be used: {exc}. tlsCAFile, tlsCertificateKeyFile and tlsCRLFile "
                "must be PEM files."
            ) from exc
        return cls(client, config)

    def ping(self) -> None:
        """Answer within 2 s whether MongoDB has a primary.

        Raises:
            StoreUnavailable: it has not.
        """
        with self._dates_told(), pymongo.timeout(_PING_SECONDS):
            self._client.admin.command("ping")

    @outages_named()
    def ensure_indexes(self) -> None:
        """Create the indexes that are missing. Repeatable; `manage.py migrate` calls it.

        Raises:
            NotProvisioned: others are in their way.
        """
        indexes.ensure(self._database)

    @outages_named()
    def drop_obsolete_indexes(self) -> list[str]:
        """Drop the indexes that only roles of earlier versions use, which then work no more.

        Returns:
            Those that were there, as `collection.name`.
        """
        return indexes.drop_obsolete(self._database)

    def require_indexes(self) -> None:
        """Refuse to work on a store without its indexes.

        Raises:
            NotProvisioned: with the command that creates them.
        """
        with self._dates_told():
            missing = indexes.missing(self._database)
        if missing:
            raise NotProvisioned(
                f"MongoDB lacks the indexes {listed(missing)}. Run: python manage.py migrate"
            )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    @contextmanager
    def _dates_told(self) -> Iterator[None]:
        """Also say which certificate of ours may be why MongoDB hangs up."""
        try:
            with outages_named():
                yield
        except StoreRefused:
            raise
        except StoreUnavailable as exc:
            if said := untimely(mongo_files(self._uri)):
                raise StoreUnavailable(f"{exc}{said}") from exc
            raise
