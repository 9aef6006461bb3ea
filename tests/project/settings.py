"""The settings of roles that run as processes in tests: the project's own, and its app."""

from chronos_site.settings import *  # noqa: F403
from chronos_site.settings import INSTALLED_APPS as CHRONOS_APPS

INSTALLED_APPS = [*CHRONOS_APPS, "tests.project"]
