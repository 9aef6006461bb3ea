"""An operator at work: a real browser on a real stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from jobs.audit import Action
from jobs.lifecycle import Job, Status, job_id_for
from jobs.repository import Repository
from tests.builders import a_job
from tests.processes import RoleProcess
from tests.waiting import wait_for
from tools.chromium import chromium
from tools.screens import log_in

TENANT: Final = "acme"
MILLISECONDS: Final = 60_000
"""What a step may take on a busy machine."""

expect.set_options(timeout=MILLISECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def site(
    repo: Repository, start: Callable[..., RoleProcess], role_env: dict[str, str]
) -> Callable[..., RoleProcess]:
    """The API, with Django's own collections."""
    migrate = start("migrate")
    assert migrate.wait() == 0, migrate.output
    start("runapi").wait_ready()
    return start


@pytest.fixture
def enter(
    site: Callable[..., RoleProcess], browser: Browser, role_env: dict[str, str]
) -> Iterator[Callable[..., Page]]:
    """Opens a window in which a new user has logged in: `enter("olga", "acme:operator")`.

    What the pages' scripts complain about fails the test.
    """
    complaints: list[str] = []
    windows: list[Page] = []

    def enter(name: str, *members: str) -> Page:
        given = [word for member in members for word in ("--member", member)]
        account = site("account", name, *given)
        assert account.wait() == 0, account.output
        password = account.wait_for_line("Password: ").removeprefix("Password: ")
        window = browser.new_page(base_url=f"http://127.0.0.1:{role_env['API_PORT']}")
        windows.append(window)
        window.set_default_timeout(MILLISECONDS)
        window.on("pageerror", lambda error: complaints.append(str(error)))
        window.on(
            "console",
            lambda message: complaints.append(message.text) if "Policy" in message.text else None,
        )
        log_in(window, name, password)
        return window

    yield enter
    for window in windows:
        window.context.close()
    assert complaints == []


def dead_letter(repo: Repository, start: Callable[..., RoleProcess], file: Path) -> Job:
    """A job that failed for good, as it lacks its file. The stack that ran it still runs."""
    for command in (
        ("runscheduler",),
        ("runexecutor", "--type", "test-needs-file"),
        ("runreaper",),
    ):
        start(*command)
    job = a_job(
        tenant_id=TENANT,
        job_type="test-needs-file",
        payload=f'{{"file":"{file}"}}',
        max_attempts=1,
    )
    assert repo.jobs.insert([job]) == [True]
    wait_for(lambda: repo.jobs.get(job.id).status is Status.DLQ)
    return job


def test_an_operator_finds_a_dead_letter_redrives_it_and_watches_it_complete(
    repo: Repository, enter: Callable[..., Page], site: Callable[..., RoleProcess], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    job = dead_letter(repo, site, file)
    window = enter("olga", f"{TENANT}:operator")

    window.get_by_role("link", name="Dead letters", exact=True).click()
    expect(window.locator("main")).to_contain_text("<script>alert('no file')</script>")
    window.get_by_role("link", name=job.idempotency_key).click()
    expect(window.locator("main")).to_contain_text("is what the target said")
    expect(window.locator("main")).to_contain_text("looked for it <b>once</b>")
    file.write_text("here it is")
    window.get_by_role("button", name="Redrive", exact=True).click()

    expect(window.locator("h1 ~ *, main").get_by_text("completed").first).to_be_visible()
    assert repo.jobs.get(job.id).status is Status.COMPLETED
    [entry] = repo.audit_log.page([TENANT], limit=10, target=str(job.id))[0]
    assert entry.author.name == "olga"


def test_an_operator_redrives_a_whole_group_and_watches_it_to_the_end(
    repo: Repository, enter: Callable[..., Page], site: Callable[..., RoleProcess], tmp_path: Path
) -> None:
    job = dead_letter(repo, site, tmp_path / "file")
    window = enter("olga", f"{TENANT}:operator")
    (tmp_path / "file").write_text("here it is")

    window.goto("/admin/dead-letters/")
    window.get_by_role("link", name=re.compile("^Redrive all 1 of")).click()
    window.get_by_role("button", name="Redrive 1 dead letter").click()

    expect(window.locator("main")).to_contain_text("1 of 1")
    wait_for(lambda: repo.jobs.get(job.id).status is Status.COMPLETED)


def test_a_refresh_that_was_under_way_takes_nothing_out_of_an_operators_hands(
    repo: Repository, enter: Callable[..., Page]
) -> None:
    now = repo.clock.now()
    job = a_job(
        tenant_id=TENANT,
        status=Status.RUNNING,
        claim_id="c0ffee",
        claimed_by="executor",
        claimed_at=now,
        started_at=now,
        lease_until=now + timedelta(minutes=10),
    )
    repo.jobs.insert([job])
    window = enter("olga", f"{TENANT}:operator")
    window.goto(f"/admin/jobs/{job.id}/")
    window.evaluate("document.addEventListener('htmx:afterRequest', () => { isOver = true })")
    asked: list[Route] = []
    window.route(f"**/admin/jobs/{job.id}/", lambda route: asked.append(route))

    def is_asked() -> bool:
        window.wait_for_timeout(10)
        return bool(asked)

    wait_for(is_asked)
    window.get_by_text("Cancel", exact=True).click()
    asked[0].continue_()
    wait_for(lambda: window.evaluate("window.isOver === true"))

    expect(window.get_by_role("button", name="Cancel the running job")).to_be_visible()


def test_an_operator_creates_previews_pauses_and_resumes_a_template(
    repo: Repository, enter: Callable[..., Page]
) -> None:
    window = enter("olga", f"{TENANT}:operator")

    window.goto("/admin/templates/new/")
    window.get_by_label("Key").fill("nightly")
    window.get_by_label("Tenant").fill(TENANT)
    window.get_by_label("Job type").fill("noop")
    window.get_by_label("Expression").press_sequentially("61 2 * * *")
    preview = window.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("61")
    window.get_by_label("Expression").fill("")
    window.get_by_label("Expression").press_sequentially("30 2 * * *")
    window.get_by_label("Time zone").press_sequentially("Europe/Berlin")
    expect(preview).to_contain_text("At 02:30")
    window.get_by_role("button", name="Create").click()
    expect(window.get_by_role("heading", name="Next five occurrences")).to_be_visible()
    window.get_by_label("Reason (optional)").fill("the target is being moved")
    window.get_by_role("button", name="Pause").click()
    expect(window.locator("main")).to_contain_text("the target is being moved")
    template = repo.jobs.get(job_id_for("nightly"))
    assert (template.status, template.paused_by) == (Status.PAUSED, "olga")
    window.get_by_role("button", name="Resume").click()

    expect(window.get_by_role("button", name="Pause")).to_be_visible()
    assert repo.jobs.get(template.id).status is Status.PENDING
    entries = repo.audit_log.page([TENANT], limit=10, target=str(template.id))[0]
    assert [entry.action for entry in entries] == [
        Action.TEMPLATE_RESUME,
        Action.TEMPLATE_PAUSE,
        Action.TEMPLATE_CREATE,
    ]


def test_a_viewer_sees_but_cannot_act(repo: Repository, enter: Callable[..., Page]) -> None:
    job = a_job(tenant_id=TENANT, status=Status.DLQ, last_error="broken")
    repo.jobs.insert([job])
    window = enter("vera", f"{TENANT}:viewer")

    window.goto(f"/admin/jobs/{job.id}/")

    expect(window.locator("main")).to_contain_text("broken")
    expect(window.locator("main").get_by_role("button")).to_have_count(0)


def test_another_tenants_user_sees_nothing(repo: Repository, enter: Callable[..., Page]) -> None:
    job = a_job(tenant_id=TENANT, status=Status.DLQ, last_error="broken")
    repo.jobs.insert([job])
    window = enter("otto", "globex:admin")

    for address in ("/admin/jobs/", "/admin/dead-letters/", "/admin/overview/", "/admin/audit/"):
        window.goto(address)
        expect(window.locator("main")).not_to_contain_text(job.idempotency_key)
        expect(window.locator("main")).not_to_contain_text(TENANT)
    answer = window.goto(f"/admin/jobs/{job.id}/")
    assert answer is not None
    assert answer.status == 404
