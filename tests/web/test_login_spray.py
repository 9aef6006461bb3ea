"""The login page: one password is not tried on everybody, and nobody pays for another's guesses."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, override_settings

from jobs.dashboard import login
from jobs.dashboard.login import ALLOWED, ALLOWED_TO_ADDRESS
from jobs.services import Services
from tests.web.dashboard import text_of

PASSWORD = "correct horse battery"  # noqa: S105
HERE, THERE = "192.0.2.1", "192.0.2.2"
REFUSED = "Too many failed logins from your address. Try again in 15 minutes."


@pytest.fixture(autouse=True)
def olga(pages: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user whose password takes no time to check, at a login that allows 20 to an address."""
    pages.repository.login_attempts._attempts.delete_many({})
    monkeypatch.setattr(login, "ALLOWED_TO_ADDRESS", 20)
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        User.objects.create_superuser("olga", password=PASSWORD)
        yield


def log_in(name: str = "olga", password: str = PASSWORD, *, address: str = HERE) -> HttpResponse:
    typed = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post("/admin/login/", typed)


def spray(count: int) -> list[int]:
    return [log_in(f"user-{n}", "Summer2026!").status_code for n in range(count)]


def test_an_address_gets_ten_times_what_a_name_gets() -> None:
    assert ALLOWED_TO_ADDRESS == 10 * ALLOWED == 100


def test_one_password_for_all_names_is_refused_after_a_while(
    pages: Services, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        statuses = spray(23)

    assert statuses == [200] * 20 + [429] * 3
    answer = log_in()
    assert answer.status_code == 429
    assert REFUSED in text_of(answer)
    [told] = [record for record in caplog.records if record.name == "jobs.dashboard.login"]
    assert told.getMessage() == f"too many failed logins from {HERE}"
    assert told.event == "login.refused"  # type: ignore[attr-defined]
    assert log_in(address=THERE).status_code == 302


def test_logins_that_succeed_do_not_count_for_their_address(pages: Services) -> None:
    assert [log_in().status_code for _ in range(25)] == [302] * 25
    assert spray(21) == [200] * 20 + [429]


def test_one_password_that_is_known_does_not_help_to_guess_others(pages: Services) -> None:
    spray(19)
    assert log_in().status_code == 302
    assert spray(2) == [200, 429]


def test_what_is_refused_for_its_name_uses_up_nothing_of_the_address(pages: Services) -> None:
    refused = [log_in("otto", "wrong").status_code for _ in range(40)]

    assert refused == [200] * ALLOWED + [429] * 30
    assert log_in().status_code == 302
