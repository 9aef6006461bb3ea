"""What the tests of the pages speak: a browser without JavaScript, logged in as somebody."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from jobs.dashboard.models import TenantMember


def browser_of(name: str, **roles: str) -> Client:
    """A browser in which this user is logged in; made where there is none.

    Args:
        name: `root` is a superuser.
        roles: by tenant, such as `a="operator"`.
    """
    user, _ = User.objects.get_or_create(username=name, defaults={"is_superuser": name == "root"})
    for tenant, role in roles.items():
        TenantMember.objects.update_or_create(user=user, tenant=tenant, defaults={"role": role})
    browser = Client(raise_request_exception=False)
    browser.force_login(user)
    return browser


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[tuple[str, Mapping[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.extend(data.split())


def text_of(answer: HttpResponse) -> str:
    """What a page says, in one line."""
    parser = _Text()
    parser.feed(answer.content.decode())
    return " ".join(parser.words)


def elements_of(answer: HttpResponse, tag: str) -> list[Mapping[str, Any]]:
    """The attributes of all elements of a kind, in order."""
    parser = _Text()
    parser.feed(answer.content.decode())
    return [attributes for name, attributes in parser.elements if name == tag]


def messages_of(answer: HttpResponse) -> list[str]:
    """What the redirect after an action will tell."""
    return [str(message) for message in answer.wsgi_request._messages]
