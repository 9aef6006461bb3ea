"""The site's routes, and the answers to requests that reach none of them."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("", include("jobs.api.urls"))]

handler400 = "jobs.api.errors.bad_request"
handler403 = "jobs.api.errors.forbidden"
handler404 = "jobs.api.errors.no_such_route"
handler500 = "jobs.api.errors.internal_error"
