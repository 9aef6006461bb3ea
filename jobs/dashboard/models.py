"""Who may act for which tenant; and the stored jobs, to be read through Django's ORM.

The read models are for a team's own queries (`JobRecord.objects.filter(status="dlq")`). Nothing is
written through them: every write is a move of `jobs.services`. The pages read the repository, whose
lists are bounded by its indexes (docs/decisions/0030).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, NoReturn, Self

from django.conf import settings
from django.db import models
from django_mongodb_backend.fields import ArrayField, ObjectIdField


class Role(models.TextChoices):
    """What a member may do; each may do what the one before may."""

    VIEWER = "viewer", "viewer: sees everything"
    OPERATOR = "operator", "operator: acts on jobs and templates"
    ADMIN = "admin", "admin: changes definitions and members"


class TenantMember(models.Model):
    """Lets a user in on one tenant."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tenant_memberships"
    )
    tenant = models.CharField(max_length=255, help_text="The tenantId of its jobs.")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        ordering: ClassVar = ["tenant", "user"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "tenant"], name="one_role_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant}"

    @classmethod
    def from_db(
        cls, db: str | None, field_names: Collection[str], values: Collection[Any], **options: Any
    ) -> Self:
        # What somebody edited by hand into something else can be seen and mended in its form.
        texts = ("tenant", "role")
        readable = [
            "" if name in texts and not isinstance(value, str) else value
            for name, value in zip(field_names, values, strict=True)
        ]
        return super().from_db(db, field_names, readable, **options)


class ReadOnly(Exception):
    """A stored job is changed by `jobs.services` alone."""


class _Reading(models.QuerySet[Any]):
    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ReadOnly(f"{self.model.__name__} is read-only: use jobs.services.default().")

    create = bulk_create = get_or_create = update = update_or_create = _refuse
    bulk_update = delete = _refuse


class _ReadModel(models.Model):
    objects = _Reading.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: object, **kwargs: object) -> NoReturn:
        raise ReadOnly(f"{type(self).__name__} is read-only: use jobs.services.default().")

    def delete(self, *args: object, **kwargs: object) -> NoReturn:
        self.save()


class JobRecord(_ReadModel):
    """A job or template as it is stored (`jobs.lifecycle.Job`)."""

    id = ObjectIdField(primary_key=True, db_column="_id")
    idempotency_key = models.CharField(max_length=255, db_column="idempotencyKey")
    tenant_id = models.CharField(max_length=255, db_column="tenantId")
    job_type = models.CharField(max_length=255, db_column="jobType")
    kind = models.CharField(max_length=16)
    status = models.CharField(max_length=16)
    priority = models.IntegerField()
    attempts = models.IntegerField()
    max_attempts = models.IntegerField(db_column="maxAttempts")
    scheduled_at = models.DateTimeField(db_column="scheduledAt")
    created_at = models.DateTimeField(db_column="createdAt")
    updated_at = models.DateTimeField(db_column="updatedAt")
    finished_at = models.DateTimeField(null=True, db_column="finishedAt")
    cron = models.CharField(max_length=255, default="")
    template_id = ObjectIdField(null=True, db_column="templateId")
    definition = models.CharField(max_length=255, default="")
    tags = ArrayField(models.CharField(max_length=100), null=True)  # type: ignore[no-untyped-call]
    payload = models.TextField(default="")
    last_error = models.TextField(default="", db_column="lastError")

    class Meta:
        managed = False
        db_table = "jobs"

    def __str__(self) -> str:
        return self.idempotency_key


class ExecutionRecord(_ReadModel):
    """An attempt that has ended (`jobs.executions.Execution`)."""

    id = models.CharField(max_length=255, primary_key=True, db_column="_id")
    job_id = ObjectIdField(db_column="jobId")
    tenant_id = models.CharField(max_length=255, db_column="tenantId")
    job_type = models.CharField(max_length=255, db_column="jobType")
    number = models.IntegerField()
    executor = models.CharField(max_length=255)
    outcome = models.CharField(max_length=16)
    started_at = models.DateTimeField(db_column="startedAt")
    finished_at = models.DateTimeField(db_column="finishedAt")
    error = models.TextField(default="")
    error_class = models.CharField(max_length=255, default="", db_column="errorClass")
    response_code = models.IntegerField(null=True, db_column="responseCode")

    class Meta:
        managed = False
        db_table = "executions"

    def __str__(self) -> str:
        return self.id
