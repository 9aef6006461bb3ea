"""Documents that somebody edited by hand into anything: no page fails, and it says which they are.

For jobs and templates see `tests.store.test_unreadable` and `tests.web.test_api_broken_documents`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from bson import ObjectId, Regex
from django.http import HttpResponse
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from jobs.dashboard.models import TenantMember
from jobs.services import Services
from tests.builders import NOW
from tests.edits import BUCKET, DEFINITION, FEW, edited
from tests.web.client import Api, recurring
from tests.web.dashboard import browser_of, text_of

Document = dict[str, Any]
ENTRY: Final = {
    "at": NOW,
    "author": "olga",
    "via": "admin",
    "action": "job.cancel",
    "tenantId": "a",
    "targets": ["hook"],
    "before": "{}",
    "after": '{"a": 1}',
    "operationId": str(ObjectId()),
}
BODY: Final = {"jobType": "http", "delivery": {"url": "https://example.com/"}}


def failures(
    collection: Collection[Document],
    documents: Iterator[Document],
    calls: Sequence[Callable[[], HttpResponse]],
    *,
    together: int = 1,
) -> list[str]:
    """Which of the calls fail while which of these documents, so many of them, are there."""
    found = []
    while some := list(islice(documents, together)):
        collection.delete_many({})
        # An index takes no second array.
        with suppress(BulkWriteError):
            collection.insert_many(some, ordered=False)
        for place, call in enumerate(calls):
            if (status := call().status_code) >= 500:
                found.append(f"call {place} answered {status}: {some}")
    collection.delete_many({})
    return found


def test_an_entry_of_the_audit_log_that_cannot_be_read_is_named(pages: Services) -> None:
    browser = browser_of("root")
    entries = pages.repository.audit_log._entries
    entries.insert_one(ENTRY | {"_id": ObjectId(b"g" * 12)})
    entries.insert_one(ENTRY | {"_id": ObjectId(b"b" * 12), "before": "7"})

    page = text_of(browser.get("/admin/audit/"))

    assert "cancelled a job" in page
    assert f"Somebody edited the entry {'62' * 12} of 2026-01-15 12:00:00 UTC" in page
    assert "'7' holds no fields" in page
    calls = [lambda: browser.get("/admin/audit/")]
    assert failures(entries, edited(ENTRY), calls, together=40) == []


def test_a_bucket_that_cannot_be_read_names_its_fields(pages: Services) -> None:
    browser = browser_of("root")
    buckets = pages.repository.buckets._buckets
    buckets.insert_one(BUCKET | {"_id": NOW, "due": "x", "openedAt": 7})

    page = text_of(browser.get("/admin/buckets/"))

    assert "2026-01-15 12:00 Edited by hand, cannot be read: due, openedAt" in page
    minutes = (
        {"_id": NOW + number * timedelta(minutes=1), **document}
        for number, document in enumerate(edited(BUCKET))
    )
    calls = [lambda: browser.get("/admin/buckets/")]
    assert failures(buckets, minutes, calls, together=40) == []


def test_a_definition_that_cannot_be_read_is_named_in_the_list(api: Api, pages: Services) -> None:
    browser = browser_of("root")
    definitions = pages.repository.definitions._definitions
    definitions.insert_one(DEFINITION | {"priority": "high"})

    page = text_of(browser.get("/admin/definitions/"))

    assert "cannot be read: definition 'hook': priority cannot be 'high'" in page
    lists = [
        lambda: browser.get("/admin/definitions/"),
        lambda: api.get("/v1/definitions", tenantId="t"),
    ]
    many = ({**document, "_id": ObjectId()} for document in edited(DEFINITION))
    assert failures(definitions, many, lists, together=40) == []
    calls = [
        lambda: browser.get("/admin/definitions/one/?tenant=t&name=hook"),
        lambda: api.post("/jobs", recurring(definition="hook", jobType=None)),
        lambda: api.call("PUT", "/v1/definitions/hook?tenantId=t", BODY),
    ]
    assert failures(definitions, edited(DEFINITION, FEW), calls) == []


def test_what_a_deleted_definition_left_says_why_the_name_cannot_come_back(
    api: Api, pages: Services
) -> None:
    left = {name: DEFINITION[name] for name in ("_id", "tenantId", "name", "version")}
    left["deletedAt"] = NOW
    definitions = pages.repository.definitions._definitions
    definitions.insert_one(left | {"version": "x"})

    refused = api.call("PUT", "/v1/definitions/hook?tenantId=t", BODY)

    assert refused.status_code == 409
    assert b"definition 'hook': version cannot be 'x'" in refused.content
    calls = [lambda: api.call("PUT", "/v1/definitions/hook?tenantId=t", BODY)]
    assert failures(definitions, edited(left, FEW), calls) == []


def test_a_membership_that_cannot_be_read_lets_nobody_in_and_can_be_mended(
    pages: Services,
) -> None:
    root, olga = browser_of("root"), browser_of("olga", a="admin")
    members = pages.repository._database["dashboard_tenantmember"]
    [member] = members.find()
    path = f"/admin/dashboard/tenantmember/{member['_id']}/change/"
    list_of = "/admin/dashboard/tenantmember/"
    calls = [
        *(lambda: root.get(list_of), lambda: root.get(path)),
        *(lambda: olga.get(list_of), lambda: olga.get("/admin/overview/")),
    ]

    assert failures(members, edited(member, FEW), calls) == []

    members.insert_one(member | {"role": Regex("admin")})
    assert olga.get(list_of).status_code == 302
    root.post(path, {"role": "viewer", "seen": ""})
    assert TenantMember.objects.get().role == "viewer"
