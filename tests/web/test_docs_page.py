"""The pages about the API: /openapi.json and /docs."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from django.test import Client

from jobs.api import openapi
from jobs.templatetags.code_spans import code_spans
from tests.web.client import body_of


class Reader(HTMLParser):
    """Checks that tags are balanced, and keeps what the page refers to."""

    VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page() -> str:
    answer = Client().get("/docs")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    return str(answer.content.decode())


def test_the_document_is_served() -> None:
    answer = Client().get("/openapi.json")

    assert answer.status_code == 200
    assert body_of(answer) == openapi.document()


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    reader = Reader()
    reader.feed(page())

    assert "script" not in reader.tags
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert all(link.startswith(("#", "/")) for link in reader.links)
    policy = Client().get("/docs")["Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_page_is_well_formed_and_its_links_lead_somewhere() -> None:
    reader = Reader()
    reader.feed(page())

    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    anchors = {link[1:] for link in reader.links if link.startswith("#")}
    assert anchors == set(reader.ids)


def test_the_page_shows_every_route_field_answer_and_example() -> None:
    html = page()
    text = unescape(re.sub(r"<[^>]+>", "", html))
    document = openapi.document()

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in text
            assert operation["description"].replace("`", "") in text
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in html
            for status, answer in operation["responses"].items():
                assert status in text
                assert answer["description"].replace("`", "") in text
    for name, schema in document["components"]["schemas"].items():
        assert f'<section id="{name}">' in html
        for field in schema["properties"]:
            assert f"<code>{field}</code>" in html
    assert "<code>retry.base</code>" in html
    assert '"nightly-report"' in text
    assert "no job has the id" in text


def test_what_stands_between_backticks_is_set_as_code() -> None:
    html = page()

    assert "`" not in html
    assert "(<code>scheduledAt</code>)" in html


def test_text_around_code_is_escaped() -> None:
    assert code_spans("<b> `<i>`") == "&lt;b&gt; <code>&lt;i&gt;</code>"
