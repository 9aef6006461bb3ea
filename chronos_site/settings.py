"""Django's settings. Every value that a deployment may change comes from `chronos_site.env`."""

from __future__ import annotations

import sys
from pathlib import Path

from django.core.management.utils import get_random_secret_key

from chronos_site import VERSION, env
from chronos_site.config import config_from
from jobs.errors import ConfigError

BASE_DIR = Path(__file__).resolve().parent.parent

try:
    ENV = env.read()
    CHRONOS = config_from(ENV)
except ConfigError as exc:
    # A sentence, not a traceback: this is the operator's first contact with a mistyped variable.
    sys.exit(f"chronos: {exc}")

DEBUG = ENV["DEBUG"]
SECRET_KEY = ENV["SECRET_KEY"] or get_random_secret_key()
ALLOWED_HOSTS = list(ENV["ALLOWED_HOSTS"])

INSTALLED_APPS = [
    "chronos_site.apps.MongoAdminConfig",
    "chronos_site.apps.MongoContentTypesConfig",
    "chronos_site.apps.MongoAuthConfig",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "jobs",
    "jobs.dashboard",
    "scheduler",
    "executor",
    "reaper",
    "devstack",
]
MIDDLEWARE = [
    "jobs.api.middleware.know_requests",
    "jobs.api.middleware.measure_requests",
    "jobs.api.middleware.drop_body_of_head",
    "jobs.api.middleware.require_known_host",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "jobs.dashboard.middleware.DashboardMiddleware",
    # They ask nothing of MongoDB before a page needs it, so the API pays next to nothing.
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "chronos_site.urls"
WSGI_APPLICATION = "chronos_site.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django_mongodb_backend",
        "HOST": CHRONOS.store.uri,
        "NAME": CHRONOS.store.database,
        # As in `jobs.repository`: what was edited by hand breaks its own document alone.
        "OPTIONS": {
            "serverSelectionTimeoutMS": 5_000,
            "datetime_conversion": "DATETIME_AUTO",
            "unicode_decode_error_handler": "replace",
        },
    }
}
# Django ships these migrations for integer keys; ours were made for ObjectIds.
MIGRATION_MODULES = {
    "admin": "chronos_site.migrations.admin",
    "auth": "chronos_site.migrations.auth",
    "contenttypes": "chronos_site.migrations.contenttypes",
}
DEFAULT_AUTO_FIELD = "django_mongodb_backend.fields.ObjectIdAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
# The few files come with the apps: nothing has to be collected before a start.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
APPEND_SLASH = False
LOGIN_URL = "admin:login"
CSRF_FAILURE_VIEW = "jobs.dashboard.errors.csrf_failure"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV["HTTPS"]
if ENV["HTTPS"]:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 365 * 86_400
# People are sent to HTTPS; clients of the API within a cluster speak HTTP to it.
SECURE_SSL_REDIRECT = ENV["HTTPS"]
SECURE_REDIRECT_EXEMPT = ["^(?!admin(/|$))"]
SILENCED_SYSTEM_CHECKS = [
    # No frames: the pages' Content-Security-Policy says so, and the API has no pages.
    "security.W002",
    # Whether other hosts of the same domain speak HTTPS is not for one of them to say.
    "security.W005",
    "security.W021",
    *(ENV["SILENCED_CHECKS"] or ()),
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "UNAUTHENTICATED_USER": None,
    "EXCEPTION_HANDLER": "jobs.api.errors.answer",
}
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Chronos",
    "DESCRIPTION": "A durable, distributed scheduler for one-off and recurring jobs. Every error is"
    ' JSON: {"error": "a sentence"}.',
    "VERSION": VERSION,
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "POSTPROCESSING_HOOKS": ["jobs.api.openapi.add_components"],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "jobs.logs.format.LineFormatter"},
        "text": {"format": "{levelname:<7} {name}: {message}", "style": "{"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": ENV["LOG_FORMAT"]}},
    "root": {"handlers": ["stderr"], "level": ENV["LOG_LEVEL"]},
    "loggers": {
        # Refused requests are counted and told why; clients must not fill the log with them.
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "CRITICAL"},
        # They repeat with every batch what `jobs.tracing.sdk` says once.
        "opentelemetry.exporter": {"level": "CRITICAL"},
        "opentelemetry.sdk._shared_internal": {"level": "CRITICAL"},
        # It tells each request that a command makes.
        "httpx": {"level": "WARNING"},
        # On DEBUG it writes down every command, with payloads.
        "pymongo": {"level": "INFO" if ENV["LOG_LEVEL"] == "DEBUG" else ENV["LOG_LEVEL"]},
    },
}
