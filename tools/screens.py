"""Takes a picture of every page, in light and in dark: `make screens`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, Literal

from django.conf import settings
from playwright.sync_api import Browser, Page

from tools.admin_server import PASSWORD, USER, AdminServer, admin_server, prepare_django
from tools.chromium import chromium

_THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
_DESK: Final = (1280, 1100)
_PHONE: Final = (390, 2 * 844)
_ON_PHONES: Final = frozenset({"overview", "dead-letters"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.screens", description=__doc__)
    parser.add_argument("--jobs", type=int, default=4_000, help="in the store; default: 4000")
    jobs: int = parser.parse_args().jobs
    prepare_django()
    directory = Path(settings.BASE_DIR) / "docs" / "screens"
    directory.mkdir(exist_ok=True)
    with admin_server(jobs=jobs, templates=40) as server, chromium() as browser:
        for theme in _THEMES:
            _take(browser, server, directory, theme)


def _take(
    browser: Browser, server: AdminServer, directory: Path, theme: Literal["light", "dark"]
) -> None:
    from tools.tour import tour

    desk = browser.new_page(
        viewport={"width": _DESK[0], "height": _DESK[1]},
        color_scheme=theme,
        base_url=server.url,
        reduced_motion="reduce",
    )
    for name, address in tour(server.scene).items():
        if name == "overview":
            log_in(desk)
        desk.goto(address)
        desk.screenshot(path=directory / f"{name}-{theme}.png", full_page=True)
        if name in _ON_PHONES and theme == "light":
            desk.set_viewport_size({"width": _PHONE[0], "height": _PHONE[1]})
            desk.screenshot(path=directory / f"{name}-phone.png")
            desk.set_viewport_size({"width": _DESK[0], "height": _DESK[1]})
    desk.context.close()


def log_in(page: Page, name: str = USER, password: str = PASSWORD) -> None:
    """Log in as somebody."""
    page.goto("/admin/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/admin/overview/")


if __name__ == "__main__":
    main()
