"""Secrets of definitions: write-only, sealed at rest, and moved from key to key."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from jobs import services
from jobs.definition_services import DefinitionServices
from jobs.delivery.config import HttpDelivery, delivery_of
from jobs.delivery.secrets import Secrets
from jobs.errors import SecretUnreadable
from jobs.services import Services
from jobs.submission import Catalog
from tests.web.client import Api, body_of, error_of, one_off, recurring
from tests.web.conftest import KEY
from tests.web.definitions import (
    BEARER,
    HTTP,
    ONE,
    PATH,
    SEALED,
    SIGNING_KEY,
    create,
    definition,
    put,
)


def stored_delivery(use_cases: Services, job_id: str) -> HttpDelivery:
    job = use_cases.repository.jobs.get(ObjectId(job_id))
    delivery = delivery_of(job.job_type, job.delivery)
    assert isinstance(delivery, HttpDelivery)
    return delivery


def everything_stored(use_cases: Services) -> str:
    stores = (use_cases.repository.jobs._jobs, use_cases.repository.definitions._definitions)
    return str([list(store.find()) for store in stores])


def test_secrets_are_sealed_and_never_shown(
    api: Api, use_cases: Services, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        made = api.post(PATH, definition(delivery=SEALED))
        job = api.submit(jobType=None, definition="hook")
        template = api.post("/jobs", recurring(jobType=None, definition="hook", delivery=SEALED))
        answers = [
            made,
            api.get(ONE),
            api.get(PATH, tenantId="t"),
            template,
            api.get(f"/jobs/{job['id']}"),
            api.get("/jobs", tenantId="t"),
        ]

    seen = "".join(answer.content.decode() for answer in answers) + caplog.text
    for secret in (SIGNING_KEY, SIGNING_KEY[6:], BEARER):
        assert secret not in seen
        assert secret not in everything_stored(use_cases)
    assert body_of(made)["delivery"] == {
        **HTTP,
        "hasSecret": True,
        "secretHeaderNames": ["Authorization"],
    }
    delivery = stored_delivery(use_cases, job["id"])
    assert delivery.open_headers(Secrets([KEY])) == {"Authorization": BEARER}
    assert Secrets([KEY]).open(delivery.secret or "") == SIGNING_KEY


def test_a_refused_secret_does_not_show_either(api: Api) -> None:
    refused = api.post(PATH, definition(delivery={**HTTP, "secret": "whsec_not base64"}))

    assert "not base64" not in error_of(refused, 400)


def test_secrets_stay_unless_they_are_changed_or_removed(api: Api, use_cases: Services) -> None:
    create(api, delivery=SEALED)
    new = {"url": HTTP["url"] + "/new"}
    all_of_it = {**new, "hasSecret": True, "secretHeaderNames": ["Authorization"]}

    assert body_of(put(api, delivery=new))["delivery"] == all_of_it
    assert body_of(put(api, **body_of(api.get(ONE))))["delivery"] == all_of_it
    job = api.submit(jobType=None, definition="hook")
    assert Secrets([KEY]).open(stored_delivery(use_cases, job["id"]).secret or "") == SIGNING_KEY
    changed = put(api, delivery={**HTTP, "secret": None, "secretHeaders": {"X-Key": "k"}})
    assert body_of(changed)["delivery"] == {
        **HTTP,
        "secretHeaderNames": ["Authorization", "X-Key"],
    }
    fewer = put(api, delivery={**HTTP, "secretHeaders": {"authorization": None}})
    assert body_of(fewer)["delivery"] == {**HTTP, "secretHeaderNames": ["X-Key"]}
    removed = put(api, delivery={**HTTP, "secretHeaders": None})
    assert body_of(removed)["delivery"] == HTTP


ELSEWHERE = (
    "https://attacker.example/hook",
    "http://example.com/hook",
    "https://example.com:8443/hook",
    "https://example.com.attacker.example/hook",
)


@pytest.mark.parametrize("url", ELSEWHERE)
@pytest.mark.parametrize("more", [{}, {"secret": SIGNING_KEY}, {"secretHeaders": {"X": "y"}}])
def test_secrets_go_only_where_they_were_given_for(
    api: Api, url: str, more: dict[str, Any]
) -> None:
    create(api, delivery=SEALED)
    delivery = {"url": url, **more}

    for refused in (
        put(api, delivery=delivery),
        api.post("/jobs", one_off(jobType=None, definition="hook", delivery=delivery)),
        api.post("/jobs", recurring(jobType=None, definition="hook", delivery=delivery)),
        api.post("/v1/schedules", one_off(jobType=None, definition="hook", delivery=delivery)),
    ):
        assert error_of(refused, 400).startswith(
            "delivery.url must stay at https://example.com:443, for which"
        )
    assert body_of(api.get(ONE))["version"] == 1


@pytest.mark.parametrize("url", ["https://example.com:443/other?a=1", "HTTPS://EXAMPLE.com/x"])
def test_secrets_may_go_to_other_paths_of_their_origin(api: Api, url: str) -> None:
    create(api, delivery=SEALED)

    assert api.submit(jobType=None, definition="hook", delivery={"url": url})["delivery"] == {
        "url": url,
        "hasSecret": True,
        "secretHeaderNames": ["Authorization"],
    }


def test_secrets_given_anew_may_go_elsewhere(api: Api) -> None:
    create(api, delivery=SEALED)
    url = "https://other.example"
    anew = {"url": url, "secret": SIGNING_KEY, "secretHeaders": {"authorization": "Bearer x"}}

    assert api.submit(jobType=None, definition="hook", delivery=anew)["delivery"]["url"] == url
    without = {"url": url, "secret": None, "secretHeaders": None}
    assert body_of(put(api, delivery=without))["delivery"] == {"url": url}


def test_secrets_need_a_key(api: Api, use_cases: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    without = Services(use_cases.repository, use_cases.job_types)
    monkeypatch.setattr(services, "default", lambda: without)

    refused = api.post(PATH, definition(delivery=SEALED))

    assert "ENCRYPTION_KEYS" in error_of(refused, 400)
    assert api.post(PATH, definition()).status_code == 201


def test_a_key_is_replaced_without_a_gap(
    api: Api, use_cases: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(api, delivery=SEALED)
    job = api.submit(jobType=None, definition="hook")
    template = recurring(jobType=None, definition="hook", delivery=SEALED)
    assert api.post("/jobs", template).status_code == 201
    new = Fernet.generate_key().decode()
    both = Services(use_cases.repository, use_cases.job_types, Secrets([new, KEY]))
    monkeypatch.setattr(services, "default", lambda: both)
    assert (
        Secrets([new, KEY]).open(stored_delivery(use_cases, job["id"]).secret or "") == SIGNING_KEY
    )

    call_command("resealsecrets")

    delivery = stored_delivery(use_cases, job["id"])
    assert Secrets([new]).open(delivery.secret or "") == SIGNING_KEY
    assert delivery.open_headers(Secrets([new])) == {"Authorization": BEARER}
    with pytest.raises(SecretUnreadable):
        Secrets([KEY]).open(delivery.secret or "")
    only_new = DefinitionServices(use_cases.repository, Catalog((), Secrets([new])))
    # The definition, its job, and the template with its own.
    assert only_new.reseal() == (4, 0)


def test_resealing_tells_what_no_key_opens(
    api: Api, use_cases: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(api, delivery=SEALED)
    other = Secrets([Fernet.generate_key().decode()])
    made = Services(use_cases.repository, use_cases.job_types, other)
    monkeypatch.setattr(services, "default", lambda: made)

    with pytest.raises(CommandError, match="1 deliveries could not be read"):
        call_command("resealsecrets")


@pytest.mark.parametrize(
    "text",
    [
        '{"secret":5}',
        '{"secret":null}',
        '{"secretHeaders":5}',
        '{"secret":"\\ud800"}',
        '["secret"]',
        "secret",
    ],
)
def test_resealing_goes_on_after_a_text_that_was_edited_by_hand(
    api: Api, use_cases: Services, text: str
) -> None:
    create(api, delivery=SEALED)
    edited = api.submit(jobType="http", delivery=HTTP)
    use_cases.repository.jobs._jobs.update_one(
        {"_id": ObjectId(edited["id"])}, {"$set": {"delivery": text}}
    )

    assert use_cases.definitions.reseal() == (1, 1)
