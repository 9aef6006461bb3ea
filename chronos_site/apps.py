"""Django's own apps with keys that MongoDB has."""

from __future__ import annotations

from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig

_OBJECT_ID = "django_mongodb_backend.fields.ObjectIdAutoField"


class MongoAuthConfig(AuthConfig):
    """Users and groups."""

    default_auto_field = _OBJECT_ID


class MongoContentTypesConfig(ContentTypesConfig):
    """Kinds of models, for permissions."""

    default_auto_field = _OBJECT_ID
