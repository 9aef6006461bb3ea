"""The minutes that the leader announced to the fan-out workers."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_safe

from jobs.dashboard.page import REFRESH_SECONDS, PageRequest, page, use_cases

_SHOWN: Final = 60


@require_safe
def buckets(request: PageRequest) -> HttpResponse:
    """/admin/buckets/"""
    recent = use_cases().repository.buckets.recent(limit=_SHOWN)
    context = {
        "buckets": recent,
        "open": sum(bucket.is_open for bucket in recent),
        "fans_out": settings.CHRONOS.scheduler.fans_out,
    }
    return page(
        request, "dashboard/buckets.html", "Buckets", context, refresh_seconds=REFRESH_SECONDS
    )
