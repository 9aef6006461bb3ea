"""Every page in a real browser: for everybody, on every screen, and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from bson import ObjectId
from playwright.sync_api import Browser, Page, expect

from tools.admin_server import AdminServer, admin_server
from tools.chromium import chromium
from tools.scene import Scene
from tools.screens import log_in
from tools.tour import tour

_PHONE: Final = {"width": 390, "height": 844}
_REPORTED: Final = ("serious", "critical")
_MILLISECONDS: Final = 60_000
"""What a step may take on a busy machine."""
_ANYTHING: Final = ObjectId()
NAMES: Final = tuple(
    tour(Scene(_ANYTHING, _ANYTHING, _ANYTHING, _ANYTHING, "definition", _ANYTHING, "tenant"))
)
REACHED_BY_TAB: Final = "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def server() -> Iterator[AdminServer]:
    with admin_server(jobs=400, templates=12) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def enter(server: AdminServer, browser: Browser) -> Callable[..., Page]:
    """A window with these options, in which somebody has logged in or not: the same each time."""
    windows: dict[str, Page] = {}

    def enter(*, logged_in: bool = True, **options: Any) -> Page:
        key = repr((logged_in, options))
        if key not in windows:
            window = browser.new_page(base_url=server.url, **options)
            window.set_default_timeout(_MILLISECONDS)
            if logged_in:
                log_in(window)
            windows[key] = window
        return windows[key]

    return enter


def walk(
    server: AdminServer, enter: Callable[..., Page], **options: Any
) -> Iterator[tuple[str, Page]]:
    """Go to each page in turn."""
    for name in NAMES:
        yield name, go(server, enter, name, **options)


def go(server: AdminServer, enter: Callable[..., Page], name: str, **options: Any) -> Page:
    window = enter(logged_in=name != "login", **options)
    answer = window.goto(tour(server.scene)[name])
    assert answer is not None
    assert answer.ok, f"{name}: {answer.status}"
    return window


def violations(window: Page) -> dict[str, Any]:
    """What axe calls serious, by its rule, with the first place."""
    found = Axe().run(window).response["violations"]
    return {
        each["id"]: (each["nodes"][0]["html"], each["nodes"][0]["failureSummary"])
        for each in found
        if each["impact"] in _REPORTED
    }


def width_of(window: Page) -> int:
    width: int = window.evaluate("document.documentElement.scrollWidth")
    return width


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_serious_violation(
    server: AdminServer, enter: Callable[..., Page], name: str, theme: str
) -> None:
    window = go(server, enter, name, color_scheme=theme, reduced_motion="reduce")

    assert violations(window) == {}


def test_no_page_is_wider_than_a_phone(server: AdminServer, enter: Callable[..., Page]) -> None:
    widths = {name: width_of(page) for name, page in walk(server, enter, viewport=_PHONE)}

    assert {name: width for name, width in widths.items() if width > _PHONE["width"]} == {}


def test_a_page_about_an_error_is_for_everybody_too(enter: Callable[..., Page]) -> None:
    window = enter(viewport=_PHONE)

    window.goto("/admin/nothing/")

    assert window.locator("h1").inner_text() == "Not found"
    assert width_of(window) <= _PHONE["width"]
    assert violations(window) == {}


def test_the_pages_of_one_user_are_for_everybody_too(
    server: AdminServer, enter: Callable[..., Page]
) -> None:
    window = go(server, enter, "users")
    window.get_by_role("link", name="demo-viewer").click()
    change = violations(window)
    window.get_by_role("link", name="Delete").click()

    assert (change, violations(window)) == ({}, {})


def test_every_page_works_without_javascript(
    server: AdminServer, enter: Callable[..., Page]
) -> None:
    titles = {
        name: page.locator("h1").inner_text() if name != "login" else "Log in"
        for name, page in walk(server, enter, java_script_enabled=False)
    }

    assert all(titles.values())


def test_no_page_breaks_its_policy_or_logs_an_error(server: AdminServer, browser: Browser) -> None:
    window = browser.new_page(base_url=server.url)
    complaints: list[str] = []
    window.on("console", lambda message: complaints.append(f"{window.url}: {message.text}"))
    window.on("pageerror", lambda error: complaints.append(f"{window.url}: {error}"))

    for _ in walk(server, lambda **_: window):
        window.wait_for_load_state("networkidle")

    assert complaints == []


@pytest.mark.parametrize("name", ["overview", "jobs", "job-dead", "template"])
def test_the_keyboard_reaches_every_control(
    server: AdminServer, enter: Callable[..., Page], name: str
) -> None:
    window = go(server, enter, name)
    controls = [each for each in window.locator(REACHED_BY_TAB).all() if each.is_visible()]

    reached = set()
    for _ in range(2 * len(controls)):
        window.keyboard.press("Tab")
        reached.add(
            window.evaluate(
                "document.activeElement.dataset.visit ||= document.activeElement.tagName"
                " + Math.random()"
            )
        )

    outline = window.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert len(reached - {None}) >= len(controls)
    assert outline != "none"


def test_the_theme_is_chosen_against_the_systems(
    server: AdminServer, enter: Callable[..., Page]
) -> None:
    window = go(server, enter, "overview", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = window.evaluate(ground)

    seen = {}
    for _ in range(3):
        window.get_by_role("button", name="Toggle theme").click()
        seen[window.evaluate("document.documentElement.dataset.theme")] = window.evaluate(ground)

    assert seen.keys() == {"auto", "light", "dark"}
    assert seen["auto"] == seen["light"] == light != seen["dark"]


def test_a_page_whose_server_hangs_says_that_it_is_old(
    server: AdminServer, browser: Browser
) -> None:
    window = browser.new_page(base_url=server.url)
    window.set_default_timeout(_MILLISECONDS)
    log_in(window)

    window.route("**/admin/overview/", lambda route: None)

    expect(window.get_by_text("Waiting for the server.")).to_be_visible(timeout=_MILLISECONDS)
    expect(window.get_by_text("this is old")).to_be_visible(timeout=_MILLISECONDS)
    window.unroute("**/admin/overview/")
    expect(window.get_by_text("this is old")).to_be_hidden(timeout=_MILLISECONDS)


def test_a_page_that_somebody_reads_says_that_it_waits(
    server: AdminServer, browser: Browser
) -> None:
    window = browser.new_page(base_url=server.url)
    window.set_default_timeout(_MILLISECONDS)
    log_in(window)

    window.get_by_role("region", name="Job types").focus()

    expect(window.get_by_text("Paused while you read")).to_be_visible(timeout=_MILLISECONDS)
    window.evaluate("document.activeElement.blur()")
    expect(window.get_by_text("Paused while you read")).to_be_hidden(timeout=_MILLISECONDS)
