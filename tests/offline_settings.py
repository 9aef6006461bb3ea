"""Settings for checks that compare models with migrations and need no server."""

from chronos_site.settings import *  # noqa: F403

DATABASES = {"default": {"ENGINE": "django.db.backends.dummy"}}
