"""The login page: who guesses passwords is refused for a while, and nobody else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, override_settings

from jobs.dashboard.login import ALLOWED, WINDOW
from jobs.services import Services
from tests.web.dashboard import text_of

PATH = "/admin/login/"
PASSWORD = "correct horse battery"  # noqa: S105
MILLISECONDS = int(WINDOW.total_seconds() * 1000)
HERE, THERE = "192.0.2.1", "192.0.2.2"
REFUSED = "Too many failed logins with this user name from your address. Try again in 15 minutes."


@pytest.fixture(autouse=True)
def olga(pages: Services) -> Iterator[None]:
    """A user whose password takes no time to check."""
    pages.repository.login_attempts._attempts.delete_many({})
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        User.objects.create_superuser("olga", password=PASSWORD)
        yield


def log_in(
    password: str = PASSWORD, *, name: str = "olga", address: str = HERE, **headers: str
) -> HttpResponse:
    typed = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post(PATH, typed, **headers)


def fail(count: int) -> None:
    for _ in range(count):
        answer = log_in("wrong")
        assert answer.status_code == 200
        assert "Please enter a correct username and password." in text_of(answer)


def test_who_has_failed_too_often_is_refused_and_told_for_how_long(
    pages: Services, caplog: pytest.LogCaptureFixture
) -> None:
    fail(ALLOWED)

    with caplog.at_level(logging.WARNING):
        answers = [log_in(), log_in("wrong")]

    for answer in answers:
        assert answer.status_code == 429
        assert REFUSED in text_of(answer)
        assert "sessionid" not in answer.cookies
    [told] = [record for record in caplog.records if record.name == "jobs.dashboard.login"]
    assert told.event == "login.refused"  # type: ignore[attr-defined]


def test_others_and_other_addresses_are_let_in_all_the_same(pages: Services) -> None:
    User.objects.create_superuser("otto", password=PASSWORD)
    fail(ALLOWED)

    assert log_in(name="otto").status_code == 302
    assert log_in(address=THERE).status_code == 302
    assert log_in().status_code == 429


def test_a_login_that_succeeds_begins_anew(pages: Services) -> None:
    fail(ALLOWED - 1)

    assert log_in().status_code == 302
    fail(ALLOWED)
    assert log_in().status_code == 429


def test_nobody_is_refused_for_longer_than_a_window(pages: Services) -> None:
    fail(ALLOWED)
    assert log_in().status_code == 429
    attempts = pages.repository.login_attempts._attempts
    over = [{"$set": {"expiresAt": {"$subtract": ["$expiresAt", MILLISECONDS]}}}]
    attempts.update_many({}, over)

    assert log_in().status_code == 302
    assert [each["count"] for each in attempts.find()] == [0]


def test_a_user_that_is_none_is_refused_alike(pages: Services) -> None:
    for _ in range(ALLOWED):
        log_in(name="nobody")

    assert REFUSED in text_of(log_in(name="nobody"))


def test_behind_a_proxy_the_address_is_the_one_that_it_appended(pages: Services) -> None:
    def through_proxy(sent: str) -> int:
        answer = log_in("wrong", HTTP_X_FORWARDED_FOR=sent, HTTP_X_FORWARDED_PROTO="https")
        return answer.status_code

    for n in range(ALLOWED):
        assert through_proxy(f"198.51.100.{n}") == 200
    assert through_proxy("198.51.100.77") == 429

    with override_settings(SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https")):
        for n in range(ALLOWED):
            assert through_proxy(f"198.51.100.{n}, 203.0.113.1") == 200
        assert through_proxy("198.51.100.77, 203.0.113.1") == 429
        assert through_proxy("203.0.113.1, 203.0.113.2") == 200


def test_a_count_that_was_edited_by_hand_refuses_nobody(pages: Services) -> None:
    attempts = pages.repository.login_attempts._attempts
    for edit in ({"count": "many"}, {"expiresAt": "never"}, {"expiresAt": [1]}, {"count": None}):
        fail(1)
        attempts.update_many({}, {"$set": edit})

        assert log_in().status_code == 302
