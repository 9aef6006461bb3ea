"""Which members of a payload are secrets, for whoever reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings

from jobs.exposure import changes
from jobs.masking import MASK, SECRET_NAMES, masked


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "db_password", "newPassword2", "passwd", "passphrase", "pwd"),
        *("secret", "client-secret", "token", "accessToken", "refresh_token", "x-csrf-token"),
        *("Authorization", "Proxy-Authorization", "credentials", "Set-Cookie"),
        *("api_key", "apiKey", "API-KEY", "X-Api-Key", "api key", "aws.access.key", "privateKey"),
    ],
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert masked({name: "hunter2", "order": 7}) == {name: MASK, "order": 7}


@pytest.mark.parametrize(
    "value",
    [
        {"order": 7, "key": "k", "author": "olga", "pass": "economy", "note": "my password"},
        {"password": None, "hasSecret": True, "secretHeaderNames": ["Authorization"]},
        ["token", 1.5, None, "{no json", '{"order":  7}', "[]"],
        "hunter2",
    ],
)
def test_what_is_no_secret_is_left_as_it_is(value: Any) -> None:
    assert masked(value) == value


def test_secrets_are_found_however_deep_and_masked_whole() -> None:
    value = {"to": [{"auth": {"Token": ["a", "b"]}}], "credentials": {"user": "olga"}, "pwd": 7}

    assert masked(value) == {
        "to": [{"auth": {"Token": MASK}}],
        "credentials": MASK,
        "pwd": MASK,
    }


def test_texts_that_are_json_are_looked_into() -> None:
    assert masked({"body": ' {"password": "hunter2", "n": "ä"}'}) == {
        "body": '{"password":"***","n":"ä"}'
    }


@pytest.mark.parametrize("depth", [100, 300, 500, 100_000])
def test_a_text_of_any_depth_breaks_nothing(depth: int) -> None:
    text = '{"token":' + "[" * depth + "]" * depth + "}"
    nested = "[" * depth + text + "]" * depth

    assert masked(text) in ('{"token":"***"}', text)
    assert isinstance(masked(nested), str)


def test_the_docs_name_the_words() -> None:
    text = (settings.BASE_DIR / "docs" / "admin.md").read_text()
    section = text.partition("## Secrets in payloads")[2].partition(".")[0]

    assert set(re.findall(r"`([a-z]+)`", section)) == set(SECRET_NAMES)


def test_the_audit_log_is_told_that_a_secret_changed_and_not_what_it_is() -> None:
    before = {"payload": '{"password":"hunter2","order":7}', "result": '{"token":"old"}'}
    after = {
        "payload": '{"password":"hunter3","order":8}',
        "delivery": '{"headers":{"Cookie":"c"}}',
    }

    assert changes(before, after) == (
        {"payload": {"password": MASK, "order": 7}, "result": {"token": MASK}},
        {"payload": {"password": MASK, "order": 8}, "delivery": {"headers": {"Cookie": MASK}}},
    )
