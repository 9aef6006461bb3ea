"""The OpenAPI document says everything, once, and truly."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from jobs.api import openapi
from jobs.api.query import JOB_PARAMETERS
from jobs.api.representation import SHOWN
from jobs.fields import FIELDS
from jobs.lifecycle import Outcome, Status, job_id_for


def document() -> dict[str, Any]:
    return openapi.document()


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def routes(patterns: list[Any], prefix: str = "/") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield prefix + re.sub(r"<str:(\w+)>", r"{\1}", str(pattern.pattern)), pattern.callback


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All bodies of an operation: what it takes, and what it answers."""
    for media_type in operation.get("requestBody", {}).get("content", {}).values():
        yield "request", media_type
    for status, answer in operation["responses"].items():
        for media_type in answer["content"].values():
            yield status, media_type


def problems(schema: Any, value: Any) -> list[str]:
    """Where a value breaks a schema of the document."""
    whole = {**schema, "components": document()["components"]}
    return [error.message for error in OAS31Validator(whole).iter_errors(value)]


def test_the_document_is_openapi_3_1() -> None:
    validate(document())

    assert document()["openapi"].startswith("3.1.")


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text())["project"]

    assert document()["info"]["version"] == project["version"]


def test_every_route_and_method_is_in_it() -> None:
    served = {
        f"{method.upper()} {path}"
        for path, view in routes(get_resolver().url_patterns)
        for method in ("get", "post", "put", "patch", "delete")
        # The admin's pages are not for clients.
        if hasattr(getattr(view, "cls", None), method)
    }

    assert {name for name, _ in operations()} == served


def test_a_submission_has_the_fields_that_are_checked() -> None:
    submission = document()["components"]["schemas"]["Submission"]

    assert list(submission["properties"]) == list(FIELDS)
    assert submission["required"] == [name for name, field in FIELDS.items() if field.required]


def test_a_job_has_the_fields_that_are_shown() -> None:
    job = document()["components"]["schemas"]["Job"]

    assert set(job["properties"]) == {*SHOWN, "unreadable"}
    assert set(job["required"]) < set(SHOWN)
    assert job["properties"]["status"]["enum"] == list(Status)
    attempt = document()["components"]["schemas"]["Attempt"]
    assert attempt["properties"]["outcome"]["enum"] == list(Outcome)


def test_the_list_has_the_parameters_that_are_read() -> None:
    parameters = document()["paths"]["/jobs"]["get"]["parameters"]

    assert [parameter["name"] for parameter in parameters] == list(JOB_PARAMETERS)


@pytest.mark.parametrize("name", openapi.ALL_COMPONENTS)
def test_every_field_is_described(name: str) -> None:
    for field, schema in document()["components"]["schemas"][name]["properties"].items():
        assert schema.get("description") or "enum" in schema, field


@pytest.mark.parametrize("field", FIELDS)
def test_every_submitted_field_has_an_example_that_is_accepted(field: str) -> None:
    for example in FIELDS[field].schema["examples"]:
        FIELDS[field].check(example)
        assert not problems(FIELDS[field].schema, example)


def test_every_operation_is_complete() -> None:
    for name, operation in operations():
        assert operation["summary"], name
        assert operation["description"], name
        assert "500" in operation["responses"], name
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], name
            assert parameter["examples"], name
        for status, media_type in contents(operation):
            assert media_type["examples"], f"{name} {status}"
        for status, answer in operation["responses"].items():
            assert answer["description"], f"{name} {status}"


def test_every_example_obeys_its_schema() -> None:
    for name, operation in operations():
        for status, media_type in contents(operation):
            for example in media_type["examples"].values():
                assert not problems(media_type["schema"], example["value"]), f"{name} {status}"


def test_every_id_in_an_example_is_the_one_its_key_has() -> None:
    jobs = [
        job
        for _, operation in operations()
        for _, media_type in contents(operation)
        for example in media_type["examples"].values()
        for job in (example["value"] if isinstance(example["value"], list) else [example["value"]])
        if isinstance(job, dict) and {"id", "idempotencyKey"} <= job.keys()
    ]

    assert len(jobs) > 5
    for job in jobs:
        assert job["id"] == str(job_id_for(job["idempotencyKey"]))


def test_headers_stand_where_they_are_sent() -> None:
    headers = {
        (name, status): sorted(answer["headers"])
        for name, operation in operations()
        for status, answer in operation["responses"].items()
        if "headers" in answer
    }

    assert {where: names for where, names in headers.items() if where[1] != "503"} == {
        ("POST /jobs", "201"): ["Location"],
        ("POST /jobs/{id}/run", "201"): ["Location"],
        ("GET /jobs", "200"): ["Link"],
        ("POST /v1/definitions", "201"): ["ETag", "Location"],
        ("GET /v1/definitions", "200"): ["Link"],
        ("GET /v1/definitions/{name}", "200"): ["ETag"],
        ("PUT /v1/definitions/{name}", "200"): ["ETag"],
        ("PUT /v1/definitions/{name}", "201"): ["ETag", "Location"],
        ("POST /v1/schedules", "201"): ["Location"],
        ("GET /v1/schedules", "200"): ["Link"],
        ("GET /v1/executions", "200"): ["Link"],
    }
    assert all(names == ["Retry-After"] for (_, s), names in headers.items() if s == "503")
