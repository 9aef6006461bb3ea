"""The page of the audit log: it shows what was done, to those whose tenant it is, and no more."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from jobs.audit import API_CLIENT, Action, Author, Entry, Via
from jobs.bulk import Filter, Kind
from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import NOW, a_job
from tests.web.dashboard import browser_of, elements_of, text_of
from tests.web.definitions import SEALED, definition

PATH = "/admin/audit/"
SCRIPT = "<script>alert(1)</script>"


def written(pages: Services, number: int = 0, **fields: Any) -> Entry:
    values: dict[str, Any] = {
        "at": NOW + timedelta(minutes=number),
        "author": Author("alice", Via.ADMIN),
        "action": Action.JOB_CANCEL,
        "tenant_id": "a",
        "targets": ("0" * 24,),
    }
    entry = Entry(**values | fields)
    pages.repository.audit_log.append([entry])
    return entry


def test_an_entry_tells_who_did_what_to_what_and_what_changed(pages: Services) -> None:
    job = a_job(tenant_id="a")
    pages.repository.jobs.insert([job])
    pages.change_priority(job.id, 7, by=Author("olga", Via.ADMIN))
    pages.cancel(job.id)

    shown = text_of(browser_of("vera", a="viewer").get(PATH))

    assert "olga changed a job's priority a " + str(job.id) + " priority 0 → 7" in shown
    assert f"{API_CLIENT.name} (api) cancelled a job" in shown
    assert "status pending → cancelled" in shown


def test_the_newest_comes_first_and_older_ones_are_a_page_away(pages: Services) -> None:
    for number in range(51):
        written(pages, number, targets=(f"n{number}",))
    browser = browser_of("root")

    first = browser.get(PATH)
    (older,) = [link["href"] for link in elements_of(first, "a") if link.get("rel") == "next"]
    second = browser.get(PATH + older)

    assert "n50" in text_of(first)
    assert " n0 " not in text_of(first)
    assert " n0 " in text_of(second)
    assert "n50" not in text_of(second)


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ("tenant=b", "of-b"),
        ("author=bob", "by-bob"),
        ("target=by-bob", "by-bob"),
        ("action=definition.delete", "of-d"),
    ],
)
def test_a_filter_leaves_only_what_it_says(pages: Services, query: str, seen: str) -> None:
    written(pages, targets=("of-b",), tenant_id="b")
    written(pages, targets=("by-bob",), author=Author("bob", Via.ADMIN))
    written(pages, targets=("of-d",), action=Action.DEFINITION_DELETE)

    shown = text_of(browser_of("root").get(f"{PATH}?{query}"))

    assert [name for name in ("of-b", "by-bob", "of-d") if f" {name} " in shown] == [seen]


def test_members_see_only_their_tenants(pages: Services) -> None:
    written(pages, targets=("of-a",))
    written(pages, targets=("of-b",), tenant_id="b")
    written(pages, targets=("of-none",), tenant_id="")
    browser = browser_of("ben", b="admin")

    assert "of-b" in text_of(browser.get(PATH))
    for path in (PATH, f"{PATH}?tenant=a", f"{PATH}?target=of-a", f"{PATH}?tenant="):
        shown = text_of(browser.get(path)).replace("?target=of-a", "")
        assert " of-a " not in shown
        assert " of-none " not in shown


def test_what_comes_from_people_is_text(pages: Services) -> None:
    written(
        pages,
        author=Author(SCRIPT, Via.ADMIN),
        tenant_id=SCRIPT,
        targets=(SCRIPT,),
        before={SCRIPT: SCRIPT},
        after={SCRIPT: {"x": SCRIPT * 20}},
    )
    browser = browser_of("root")

    for path in (PATH, f"{PATH}?tenant={SCRIPT}&author={SCRIPT}&target={SCRIPT}"):
        answer = browser.get(path)
        assert answer.status_code == 200
        assert b"<script>alert" not in answer.content
        assert SCRIPT in text_of(answer)


def test_much_is_folded_away(pages: Services) -> None:
    pages.definitions.create(definition(tenantId="a", delivery=SEALED))
    answer = browser_of("root").get(PATH)

    assert len(elements_of(answer, "details")) >= 1
    assert "fields" in text_of(answer)
    assert b"hasSecret" in answer.content


def test_a_target_is_a_link_where_it_has_a_page(pages: Services) -> None:
    for act in (Action.DEFINITION_CREATE, Action.DEFINITION_DELETE):
        written(pages, action=act, targets=(f"of-{act}",), tenant_id="a/b&c")

    links = [link["href"] for link in elements_of(browser_of("root").get(PATH), "a")]

    assert "/admin/definitions/one/?tenant=a%2Fb%26c&name=of-definition.create" in links
    assert not any("of-definition.delete" in link for link in links)


def test_a_new_secret_is_said_to_be_another(pages: Services) -> None:
    same = {"delivery": {"hasSecret": True}}
    written(pages, before=same, after=same)

    assert "a secret is another one" in text_of(browser_of("root").get(PATH))


def test_where_nothing_is_there_a_sentence_says_so(pages: Services) -> None:
    browser = browser_of("root")

    assert "Nothing was done yet." in text_of(browser.get(PATH))
    assert "that fits this filter" in text_of(browser.get(f"{PATH}?author=nobody"))
    assert "that fits this filter" in text_of(browser.get(f"{PATH}?action=nonsense"))
    assert browser.get(f"{PATH}?before=nonsense").status_code == 404


def test_the_log_cannot_be_written_to_and_strangers_see_nothing(pages: Services) -> None:
    browser = browser_of("root")

    assert browser.post(PATH).status_code == 405
    assert browser.delete(PATH).status_code == 405
    forms = [form for form in elements_of(browser.get(PATH), "form") if form.get("method") != "get"]
    assert {form.get("action") for form in forms} <= {"/admin/logout/"}
    assert Client().get(PATH).status_code == 302


def test_a_bulk_operation_is_told_in_words_and_leads_to_its_page(pages: Services) -> None:
    pages.repository.jobs.insert([a_job(tenant_id="a", status=Status.DLQ, finished_at=NOW)])
    wanted = Filter(tenant_id="a", error_text="gone", since=NOW)
    operation = pages.bulk.start(Kind.REDRIVE, wanted, tenants=None, by=Author("olga", Via.ADMIN))
    pages.bulk.cancel(operation.id, by=Author("olga", Via.ADMIN))
    written(pages, 1, action=Action.JOB_REDRIVE, operation_id=str(operation.id))

    answer = browser_of("vera", a="viewer").get(PATH)

    shown = text_of(answer)
    assert f"filter – → tenant a, “gone” in the error, ended at {NOW:%Y-%m-%d %H:%M:%S}" in shown
    assert "error_text" not in shown
    assert "state waiting → cancelled" in shown
    assert "redrove a job, in a bulk operation" in shown
    to_it = [each for each in elements_of(answer, "a") if str(operation.id) in each["href"]]
    assert {each["href"] for each in to_it} == {f"/admin/operations/{operation.id}/"}
    assert [each.get("class") for each in to_it].count("nowrap") == 2


@pytest.mark.parametrize("told", [{"since": 3}, {"until": "soon"}, {"colour": "red"}, "all", {}])
def test_a_filter_that_somebody_edited_is_shown_as_it_is(pages: Services, told: Any) -> None:
    written(pages, action=Action.BULK_START, after={"filter": told})

    answer = browser_of("root").get(PATH)

    assert answer.status_code == 200
    assert told if isinstance(told, str) else json.dumps(told) in text_of(answer)
