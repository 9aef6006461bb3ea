"""The users that devstack makes: what each of them may, with the password that is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from chronos_site import env
from chronos_site.config import StoreConfig
from devstack.accounts import ACCOUNTS, make_accounts
from devstack.demo import TENANT
from jobs.lifecycle import Status
from jobs.services import Services
from tests.builders import a_job

JOBS = "/admin/jobs/"


def log_in(name: str, password: str) -> Client:
    browser = Client()
    sent = browser.post("/admin/login/", {"username": name, "password": password})
    assert sent.status_code == 302, sent.content.decode()
    return browser


@pytest.mark.timeout(300)
def test_they_are_made_with_kept_passwords_and_their_rights(
    pages: Services, shared_store: StoreConfig, tmp_path: Path
) -> None:
    environment = env.for_child(
        DJANGO_SETTINGS_MODULE="chronos_site.settings",
        MONGO_URI=shared_store.uri,
        MONGO_DB=shared_store.database,
    )
    theirs = a_job(tenant_id=TENANT, status=Status.DLQ)
    others = a_job(tenant_id="another", status=Status.DLQ)
    pages.repository.jobs.insert([theirs, others])

    passwords = make_accounts(tmp_path, environment)

    kept = tmp_path / "passwords.json"
    assert json.loads(kept.read_text()) == passwords
    assert kept.stat().st_mode & 0o077 == 0
    assert set(passwords) == {"demo-admin", "demo-operator", "demo-viewer"} == set(ACCOUNTS)
    may = {
        name: (
            browser.get(f"{JOBS}{theirs.id}/").status_code,
            browser.get(f"{JOBS}{others.id}/").status_code,
            browser.post(f"{JOBS}{theirs.id}/clone/").status_code,
            browser.get("/admin/auth/user/").status_code,
        )
        for name, browser in ((each, log_in(each, passwords[each])) for each in sorted(ACCOUNTS))
    }
    assert may == {
        "demo-admin": (200, 200, 302, 200),
        "demo-operator": (200, 404, 302, 403),
        "demo-viewer": (200, 404, 403, 403),
    }
