"""The overview: is work late, is it failing, where is it stuck, who is doing it."""

from __future__ import annotations

from django.http import HttpResponse

from jobs.dashboard.page import REFRESH_SECONDS, PageRequest, page


def overview(request: PageRequest) -> HttpResponse:
    """/admin/overview/"""
    return page(request, "dashboard/overview.html", "Overview", {}, refresh_seconds=REFRESH_SECONDS)
