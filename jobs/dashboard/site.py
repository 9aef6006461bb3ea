"""The admin site: Django's own pages for users and members, and in front of them ours."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.contrib.admin import AdminSite
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, path, reverse

from jobs.audit import Action
from jobs.dashboard.account_log import record
from jobs.dashboard.accounts import ANOTHER_PASSWORD, with_rules
from jobs.dashboard.login import LoginForm
from jobs.dashboard.page import access
from jobs.dashboard.rights import Right


class ChronosSite(AdminSite):
    """Lets in whoever is a member of a tenant, beside superusers and staff."""

    site_title = "Chronos"
    site_header = "Chronos"
    index_title = "Users and members"
    site_url = None
    login_form = LoginForm
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        return access(request).may_enter

    def get_urls(self) -> list[URLPattern | URLResolver]:
        from jobs.dashboard.urls import PAGES

        pages: list[URLPattern | URLResolver] = [
            path(each.route, self.admin_view(each.view), name=each.name) for each in PAGES
        ]
        accounts = path("accounts/", self.admin_view(super().index), name="accounts")
        # Django's links to an object by its content type know none of MongoDB's ids.
        nothing = path("r/<path:rest>", _not_there)
        return [*pages, accounts, nothing, *super().get_urls()]

    def index(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:  # type: ignore[override]
        return redirect("admin:overview")

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        answer = super().login(request, extra_context)
        form = (getattr(answer, "context_data", None) or {}).get("form")
        if getattr(form, "is_refused", False):
            answer.status_code = HTTPStatus.TOO_MANY_REQUESTS
        return answer

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:  # type: ignore[override]
        answer = super().password_change(request, extra_context)
        if request.method == "POST" and answer.status_code == HTTPStatus.FOUND:
            author = access(request).author
            record(author, Action.USER_CHANGE, author.name, after=ANOTHER_PASSWORD)
        return answer

    def register(
        self, model_or_iterable: Any, admin_class: type[Any] | None = None, **options: Any
    ) -> None:
        ruled = None if admin_class is None else with_rules(admin_class)
        super().register(model_or_iterable, ruled, **options)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if self.has_permission(request):
            context["navigation"] = _navigation(request)
        return context


def _not_there(request: HttpRequest, rest: str) -> HttpResponse:
    raise Http404


def _navigation(request: HttpRequest) -> list[dict[str, Any]]:
    from jobs.dashboard.urls import PAGES

    entries = [(each.title, [reverse(f"admin:{each.name}")]) for each in PAGES if each.title]
    if access(request).is_staff or access(request).has_somewhere(Right.ADMINISTER):
        lists = [reverse("admin:app_list", args=[label]) for label in ("auth", "dashboard")]
        entries.append(("Users and members", [reverse("admin:accounts"), *lists]))
    return [
        {"title": title, "url": urls[0], "is_current": request.path.startswith(tuple(urls))}
        for title, urls in entries
    ]
