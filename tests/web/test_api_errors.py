"""Every error is JSON, and none tells of our insides."""

from __future__ import annotations

import logging

import pytest

from chronos_site.config import StoreConfig
from devstack.process import free_port
from jobs import services
from jobs.errors import StoreUnavailable
from jobs.services import Services
from tests.web.client import Api, body_of, error_of, one_off

EVERY_ROUTE = {
    "/jobs": "GET, HEAD, POST",
    "/jobs/bulk": "POST",
    f"/jobs/{'0' * 24}": "GET, HEAD",
    **{
        f"/jobs/{'0' * 24}/{action}": "POST"
        for action in ("cancel", "redrive", "pause", "resume", "run")
    },
    "/v1/executions": "GET, HEAD",
    f"/v1/executions/{'0' * 24}-{'0' * 16}": "GET, HEAD",
    f"/v1/executions/{'0' * 24}-{'0' * 16}/logs": "GET, HEAD",
    "/healthz": "GET, HEAD",
    "/openapi.json": "GET, HEAD",
    "/docs": "GET, HEAD",
}


@pytest.mark.parametrize(
    "path", ["/", "/nope", "/jobs/", "/jobs//", "/jobs/1/2/3", "/healthz/", "/%ff", "/%00", "/<b>"]
)
def test_an_unknown_route_is_404(api: Api, path: str) -> None:
    assert "/docs" in error_of(api.client.get(path), 404)


@pytest.mark.parametrize(("path", "allowed"), EVERY_ROUTE.items())
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_another_method_is_405_and_names_the_allowed(
    api: Api, path: str, allowed: str, method: str
) -> None:
    answer = api.client.generic(method, path)

    assert error_of(answer, 405) == f"{method} is not allowed here; allowed: {allowed}"
    assert answer["Allow"] == allowed


def test_get_and_post_are_refused_where_they_mean_nothing(api: Api) -> None:
    assert error_of(api.client.get("/jobs/bulk"), 405)
    assert error_of(api.client.get(f"/jobs/{'0' * 24}/cancel"), 405)
    assert error_of(api.client.post("/healthz"), 405)


@pytest.mark.parametrize(
    "accept", ["text/html", "application/xml", "application/json;q=0", "nonsense", ""]
)
def test_json_is_answered_whatever_is_accepted(api: Api, accept: str) -> None:
    assert body_of(api.client.get("/jobs?tenantId=t", headers={"accept": accept})) == []


def test_head_answers_as_get_without_the_body(api: Api) -> None:
    job = api.submit()

    for path in ("/jobs?tenantId=t", f"/jobs/{job['id']}", "/healthz", "/openapi.json", "/docs"):
        head, get = api.client.head(path), api.client.get(path)
        assert head.status_code == get.status_code == 200
        assert head["Content-Type"] == get["Content-Type"]
        assert head.content == b""


def test_healthz_says_ok_without_asking_mongodb(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_services() -> Services:
        raise AssertionError

    monkeypatch.setattr(services, "default", no_services)

    answer = api.client.get("/healthz", headers={"host": "10.0.0.7:8080"})

    assert (answer.status_code, answer.content) == (200, b"ok")
    assert answer["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("host", ["evil.example", "a b", "", "[::1"])
def test_a_foreign_host_is_400(api: Api, host: str) -> None:
    assert "ALLOWED_HOSTS" in error_of(
        api.client.get("/jobs?tenantId=t", headers={"host": host}), 400
    )


def test_too_many_parameters_are_400(api: Api) -> None:
    assert error_of(api.client.get("/jobs?" + "&".join(["a=1"] * 2000)), 400)


def test_a_bug_is_500_without_its_details(
    api: Api,
    use_cases: Services,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(use_cases.repository.jobs, "page", fail)

    with caplog.at_level(logging.ERROR):
        answer = api.get("/jobs", tenantId="t")

    assert "secret" not in error_of(answer, 500)
    assert "secret" in caplog.text


def test_a_store_that_is_away_is_503_with_a_time_to_repeat(
    api: Api, use_cases: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("MongoDB does not answer (mongo-7.internal:27017)")

    monkeypatch.setattr(use_cases.repository.jobs, "page", away)
    monkeypatch.setattr(use_cases._intake, "insert", away)

    for answer in (api.get("/jobs", tenantId="t"), api.post("/jobs", one_off())):
        assert "internal" not in error_of(answer, 503)
        assert int(answer["Retry-After"]) > 0


def test_a_store_that_was_never_there_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.repository.connection._SELECTION_MS", 200)
    nowhere = StoreConfig(f"mongodb://127.0.0.1:{free_port()}/?replicaSet=rs0", "none")
    made = Services(services.Repository.connect(nowhere), frozenset({"noop"}))
    monkeypatch.setattr(services, "default", lambda: made)
    api = Api()

    assert error_of(api.post("/jobs", one_off()), 503)
    assert error_of(api.get("/jobs", tenantId="t"), 503)
