"""Django's own apps with keys that MongoDB has."""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig

_OBJECT_ID = "django_mongodb_backend.fields.ObjectIdAutoField"


class DashboardAdminConfig(AdminConfig):
    """The admin with the dashboard's pages in front, in a project with any database."""

    default_site = "jobs.dashboard.site.ChronosSite"


class MongoAdminConfig(DashboardAdminConfig):
    """The same, with its log in MongoDB."""

    default_auto_field = _OBJECT_ID


class MongoAuthConfig(AuthConfig):
    """Users and groups."""

    default_auto_field = _OBJECT_ID


class MongoContentTypesConfig(ContentTypesConfig):
    """Kinds of models, for permissions."""

    default_auto_field = _OBJECT_ID
