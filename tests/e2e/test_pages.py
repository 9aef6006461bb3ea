"""Every page in a real browser: for everybody, on every screen, and without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tools.admin_server import PASSWORD, USER, AdminServer, admin_server
from tools.chromium import chromium
from tools.screens import log_in
from tools.tour import tour

_PHONE: Final = {"width": 390, "height": 844}
_REPORTED: Final = ("serious", "critical")


@pytest.fixture(scope="module")
def server() -> Iterator[AdminServer]:
    with admin_server(jobs=400, templates=12) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def walk(page: Page, server: AdminServer) -> Iterator[str]:
    """Go to each page in turn; gives their names."""
    for name, address in tour(server.scene).items():
        if name == "overview":
            log_in(page, USER, PASSWORD)
        answer = page.goto(address)
        assert answer is not None
        assert answer.ok, f"{name}: {answer.status}"
        yield name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation_on_any_page(
    server: AdminServer, browser: Browser, theme: Literal["light", "dark"]
) -> None:
    page = browser.new_page(base_url=server.url, color_scheme=theme, reduced_motion="reduce")
    found: dict[str, Any] = {}

    for name in walk(page, server):
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in _REPORTED:
                first = violation["nodes"][0]
                found[f"{name}: {violation['id']}"] = (first["html"], first["failureSummary"])

    assert found == {}


def test_no_page_is_wider_than_a_phone(server: AdminServer, browser: Browser) -> None:
    page = browser.new_page(base_url=server.url, viewport=_PHONE)
    too_wide = {}

    for name in walk(page, server):
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > _PHONE["width"]:
            too_wide[name] = width

    assert too_wide == {}


def test_every_page_works_without_javascript(server: AdminServer, browser: Browser) -> None:
    page = browser.new_page(base_url=server.url, java_script_enabled=False)
    titles = {}

    for name in walk(page, server):
        titles[name] = page.locator("h1").inner_text() if name != "login" else "Log in"

    assert all(titles.values())


def test_no_page_breaks_its_policy_or_logs_an_error(server: AdminServer, browser: Browser) -> None:
    page = browser.new_page(base_url=server.url)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))

    for _ in walk(page, server):
        page.wait_for_load_state("networkidle")

    assert complaints == []
