"""The dashboard as an app of Django."""

from __future__ import annotations

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages for operators, and who may see them."""

    name = "jobs.dashboard"
    verbose_name = "Chronos"
