"""The pages of definitions: what is called, by what it is used, and who may change it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from django.http import HttpResponse
from django.test import Client

from jobs.audit import Author, Via
from jobs.definitions import Definition
from jobs.services import Services
from tests.web.client import Api
from tests.web.dashboard import browser_of, elements_of, messages_of, text_of
from tests.web.definitions import BEARER, SEALED, SIGNING_KEY, definition

LIST: Final = "/admin/definitions/"
NEW: Final = f"{LIST}new/"
HOOK: Final = "tenant=a&name=hook"
ONE: Final = f"{LIST}one/?{HOOK}"
EDIT: Final = f"{LIST}edit/?{HOOK}"
DELETE: Final = f"{LIST}delete/"
SCRIPT: Final = "<script>alert(1)</script>"


def stored(pages: Services, **changes: Any) -> Definition:
    return pages.definitions.create(definition(**{"tenantId": "a"} | changes))


def current(pages: Services) -> Definition:
    return pages.definitions.get("a", "hook")


def filled(**changes: str) -> dict[str, str]:
    """What a form sends for a definition that is accepted."""
    return {
        "name": "hook",
        "tenantId": "a",
        "jobType": "http",
        "delivery": '{"url": "https://example.com/hook"}',
        "description": "",
        **changes,
    }


def error_beside(answer: HttpResponse, field: str) -> bool:
    """Whether a field is marked, and says why by its description."""
    ids = {each.get("id") for each in elements_of(answer, "p")}
    marked = [
        each
        for tag in ("input", "textarea", "select")
        for each in elements_of(answer, tag)
        if each.get("aria-invalid") == "true"
    ]
    return [each["id"] for each in marked] == [field] and f"{field}-error" in ids & set(
        marked[0]["aria-describedby"].split()
    )


def test_the_list_holds_the_definitions_of_the_users_tenants(pages: Services) -> None:
    stored(pages)
    stored(pages, tenantId="b", name="other")

    assert "hook a http" in text_of(browser_of("vera", a="viewer").get(LIST))
    assert "other" not in text_of(browser_of("vera").get(LIST))
    assert "hook" not in text_of(browser_of("vera").get(f"{LIST}?tenant=b"))
    everything = text_of(browser_of("root").get(LIST))
    assert "hook a http" in everything
    assert "other b http" in everything
    assert "hook" not in text_of(browser_of("root").get(f"{LIST}?tenant=b"))


def test_the_list_goes_on_where_it_ended(pages: Services) -> None:
    for number in range(51):
        stored(pages, name=f"n{number}")
    browser = browser_of("root")

    first = browser.get(LIST)
    (older,) = [link["href"] for link in elements_of(first, "a") if link.get("rel") == "next"]

    assert "n50" in text_of(first)
    assert " n0 " not in text_of(first)
    assert " n0 " in text_of(browser.get(LIST + older))


def test_an_empty_list_is_a_sentence(pages: Services) -> None:
    assert "There is no definition." in text_of(browser_of("root").get(LIST))
    assert "no definition that you may see" in text_of(browser_of("root").get(f"{LIST}?tenant=x"))


def test_a_definition_shows_its_fields_and_masks_its_secrets(pages: Services) -> None:
    stored(pages, delivery=SEALED, payload={"x": 1}, priority=4, tags=["red"], description="Why")

    answer = browser_of("vera", a="viewer").get(ONE)
    shown = text_of(answer)

    assert answer.status_code == 200
    for text in ("Version 1", "Priority 4", "Tags red", "Description Why", '"x": 1'):
        assert text in shown
    assert '"hasSecret": true' in shown
    for secret in (SIGNING_KEY, BEARER, "gAAAA"):
        assert secret not in answer.content.decode()


def test_a_definition_shows_what_uses_it(api: Api, pages: Services) -> None:
    stored(pages)
    job = api.submit(tenantId="a", jobType=None, definition="hook")
    template = pages.submit(
        {
            "tenantId": "a",
            "idempotencyKey": "each-minute",
            "definition": "hook",
            "cron": "* * * * *",
        }
    )
    run = pages.repository.jobs
    browser = browser_of("vera", a="viewer")

    shown = text_of(browser.get(ONE))

    assert job["idempotencyKey"] in shown
    assert "each-minute pending" in shown
    run._jobs.update_one({"_id": template.id}, {"$set": {"attempts": "three"}})
    assert "Cannot be read: " in text_of(browser.get(ONE))


def test_another_tenants_definition_is_not_there(pages: Services) -> None:
    stored(pages)
    ben = browser_of("ben", b="admin")

    for path in (ONE, EDIT, f"{LIST}one/?tenant=b&name=hook", f"{LIST}one/"):
        assert ben.get(path).status_code == 404
    assert ben.post(EDIT, filled(version="1")).status_code == 404
    assert ben.post(DELETE, {"tenant": "a", "name": "hook", "version": "1"}).status_code == 404
    assert ben.post(NEW, filled()).status_code == 404
    assert current(pages).version == 1


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_is_no_admin_changes_nothing(pages: Services, role: str) -> None:
    stored(pages)
    browser = browser_of("olga", a=role)

    assert "Delete" not in text_of(browser.get(ONE))
    assert "Edit" not in text_of(browser.get(ONE))
    assert "New definition" not in text_of(browser.get(LIST))
    for path in (NEW, EDIT):
        assert browser.get(path).status_code == 403
    assert browser.post(NEW, filled(name="second")).status_code == 403
    assert browser.post(EDIT, filled(version="1")).status_code == 403
    assert browser.post(DELETE, {"tenant": "a", "name": "hook", "version": "1"}).status_code == 403
    assert current(pages).version == 1


def test_an_admin_makes_a_definition_and_it_is_audited(pages: Services) -> None:
    browser = browser_of("ada", a="admin")
    assert browser.get(NEW).status_code == 200

    answer = browser.post(
        NEW,
        filled(
            description="one\r\ntwo",
            payload='{"x": 1}',
            priority="3",
            maxAttempts="5",
            timeoutSeconds="1.5",
            retry='{"strategy": "fixed"}',
            tags="red, green,",
        ),
    )

    assert answer.status_code == 302, text_of(answer)
    assert answer["Location"] == ONE
    made = current(pages)
    assert (made.description, made.priority, made.max_attempts) == ("one\ntwo", 3, 5)
    assert (made.timeout_seconds, made.retry) == (1.5, {"strategy": "fixed"})
    assert made.tags == ("red", "green")
    (entry,) = pages.repository.audit_log.page(None, limit=9)[0]
    assert entry.author == Author("ada", Via.ADMIN)


@pytest.mark.parametrize(
    ("field", "text", "error"),
    [
        ("payload", "{", "is not JSON"),
        ("payload", "[]", "must be an object"),
        ("delivery", '{"url": "ftp://x"}', "url"),
        ("delivery", "", "is required"),
        ("retry", '{"strategy": "never"}', "strategy"),
        ("priority", "high", "is not a number"),
        ("tags", "red,red", "must differ"),
        ("name", "no spaces", "Name"),
        ("tenantId", "", ""),
    ],
)
def test_an_error_stands_beside_its_field_and_what_was_written_stays(
    pages: Services, field: str, text: str, error: str
) -> None:
    answer = browser_of("root").post(NEW, filled(**{"description": "stays", field: text}))

    assert answer.status_code == 422
    assert error in text_of(answer)
    assert error_beside(answer, field)
    assert "stays" in text_of(answer)


def test_a_name_that_is_taken_is_said_beside_it(pages: Services) -> None:
    stored(pages)

    answer = browser_of("ada", a="admin").post(NEW, filled())

    assert answer.status_code == 422
    assert "has a definition of this name already" in text_of(answer)


def test_an_edit_makes_a_version_and_keeps_the_secrets_that_it_leaves_out(
    pages: Services,
) -> None:
    sealed = stored(pages, delivery=SEALED, priority=4).delivery
    browser = browser_of("ada", a="admin")
    form = browser.get(EDIT)
    (written,) = [each for each in elements_of(form, "textarea") if each["name"] == "delivery"]
    assert written["aria-describedby"] == "delivery-help"
    assert SIGNING_KEY not in form.content.decode()

    delivery = {"url": "https://example.com/hook", "hasSecret": True}
    answer = browser.post(EDIT, filled(version="1", delivery=json.dumps(delivery)))

    assert answer.status_code == 302, text_of(answer)
    now = current(pages)
    assert (now.version, now.priority) == (2, None)
    before, after = json.loads(sealed or ""), json.loads(now.delivery or "")
    assert after["secret"] == before["secret"]
    assert after["secretHeaders"] == before["secretHeaders"]


def test_an_edit_of_a_version_that_is_gone_is_refused_and_not_lost(pages: Services) -> None:
    stored(pages)
    pages.definitions.put("a", "hook", definition(tenantId="a", priority=9))

    answer = browser_of("ada", a="admin").post(EDIT, filled(version="1", description="mine"))

    assert answer.status_code == 409
    assert "Somebody else has changed it meanwhile" in text_of(answer)
    assert "mine" in text_of(answer)
    assert current(pages).priority == 9


def test_a_form_without_its_version_is_not_ours(pages: Services) -> None:
    stored(pages)

    for version in ("", "x", "-1", "9" * 20):
        answer = browser_of("root").post(EDIT, filled(version=version))
        assert answer.status_code == 404


def test_a_definition_is_deleted_unless_a_template_uses_it(pages: Services) -> None:
    stored(pages)
    template = pages.submit(
        {"tenantId": "a", "idempotencyKey": "t", "definition": "hook", "cron": "* * * * *"}
    )
    browser = browser_of("ada", a="admin")
    form = {"tenant": "a", "name": "hook", "version": "1"}

    refused = browser.post(DELETE, form)
    assert refused["Location"] == ONE
    assert messages_of(refused) == [
        f"Template {template.id} uses the definition 'hook': cancel it first."
    ]
    pages.cancel(template.id)
    deleted = browser.post(DELETE, form)

    assert deleted["Location"] == LIST
    assert "is deleted" in messages_of(deleted)[-1]
    assert browser.get(ONE).status_code == 404


def test_what_people_write_is_text(pages: Services) -> None:
    stored(
        pages,
        tenantId=SCRIPT,
        description=SCRIPT,
        tags=[SCRIPT],
        payload={SCRIPT: SCRIPT},
        delivery={"url": "https://example.com/<script>alert(1)"},
    )
    browser = browser_of("root")
    query = "tenant=%3Cscript%3Ealert(1)%3C/script%3E&name=hook"

    for path in (LIST, f"{LIST}one/?{query}", f"{LIST}edit/?{query}"):
        answer = browser.get(path)
        assert answer.status_code == 200
        assert b"<script>alert" not in answer.content
        assert SCRIPT in text_of(answer)


def test_a_definition_edited_by_hand_breaks_neither_list_nor_page(pages: Services) -> None:
    stored(pages)
    stored(pages, name="fine")
    broken = {"name": "hook"}
    pages.repository.definitions._definitions.update_one(broken, {"$set": {"version": "x"}})
    browser = browser_of("root")

    assert "fine" in text_of(browser.get(LIST))
    for path in (ONE, EDIT):
        assert "version cannot be" in text_of(browser.get(path, follow=True))


def test_strangers_are_sent_to_the_login_page(pages: Services) -> None:
    for path in (LIST, ONE, NEW, EDIT):
        assert Client().get(path).status_code == 302
    assert browser_of("root").get(DELETE)["Location"] == LIST
