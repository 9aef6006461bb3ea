"""The pages: where each is below /admin/, and in which order they stand in the head of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from django.http.response import HttpResponseBase
from django.urls import register_converter

from jobs.dashboard import overview
from jobs.dashboard.ids import ObjectIdConverter

register_converter(ObjectIdConverter, "oid")


class Page(NamedTuple):
    """One page or action."""

    route: str
    view: Callable[..., HttpResponseBase]
    name: str
    """Reversed as `admin:<name>`."""
    title: str = ""
    """In the navigation; "": it does not stand there."""


PAGES: Final[tuple[Page, ...]] = (Page("overview/", overview.overview, "overview", "Overview"),)
