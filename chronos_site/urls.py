"""The site's routes, and the answers to requests that reach none of them."""

from __future__ import annotations

from jobs.api.urls import urlpatterns as api_routes

# Taken in, not included: each level of routes costs every request a little.
urlpatterns = [*api_routes]

handler400 = "jobs.api.errors.bad_request"
handler403 = "jobs.api.errors.forbidden"
handler404 = "jobs.api.errors.no_such_route"
handler500 = "jobs.api.errors.internal_error"
