"""Members in Django's admin: superusers manage all, an admin of a tenant the tenant's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.audit import Action
from jobs.dashboard.account_log import record, shown_member
from jobs.dashboard.models import TenantMember
from jobs.dashboard.page import access
from jobs.dashboard.rights import Right

# Generic for type checkers only.
if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[TenantMember]
    _ModelAdmin = admin.ModelAdmin[TenantMember]
else:
    _ModelForm = forms.ModelForm
    _ModelAdmin = admin.ModelAdmin


class MemberForm(_ModelForm):
    """Names the user: a list of all users is none of a tenant's business."""

    username = forms.CharField(max_length=150, help_text="Of a user that exists.")
    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    """The role that the form showed when it was opened."""
    managed: frozenset[str] | None = None

    class Meta:
        model = TenantMember
        fields = ("username", "tenant", "role", "seen")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["username"] = self.instance.user.get_username()
            # Another tenant's member is another membership, of which both tenants' logs tell.
            self.fields["username"].disabled = self.fields["tenant"].disabled = True
            self.initial["seen"] = self.instance.role

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        users: Any = get_user_model()
        user = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
        if user is None:
            raise forms.ValidationError("No user has this name.")
        self.instance.user = user
        return name

    def clean_tenant(self) -> str:
        tenant: str = self.cleaned_data["tenant"]
        if self.managed is not None and tenant not in self.managed:
            raise forms.ValidationError("You are no admin of this tenant.")
        return tenant

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        others = TenantMember.objects.exclude(pk=self.instance.pk)
        if (
            self.instance.user_id
            and others.filter(
                user_id=self.instance.user_id, tenant=self.cleaned_data.get("tenant", "")
            ).exists()
        ):
            raise forms.ValidationError("The user is a member of this tenant already.")
        self._require_seen()
        return cleaned

    def _require_seen(self) -> None:
        now = self.instance.role
        if self.instance.pk and self.cleaned_data.get("seen") not in ("", now):
            self.data = {**self.data, "seen": now}
            raise forms.ValidationError(
                f"Somebody else has changed the role to {now or 'nothing'} meanwhile. Nothing was"
                " stored; save again to replace that."
            )


@admin.register(TenantMember)
class TenantMemberAdmin(_ModelAdmin):
    """Each change is in the audit log."""

    form = MemberForm
    list_display = ("user", "tenant", "role")
    list_filter = ("role",)
    search_fields = ("tenant",)
    actions = None

    def has_module_permission(self, request: HttpRequest) -> bool:
        return access(request).has_somewhere(Right.ADMINISTER)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_module_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: TenantMember | None = None) -> bool:
        if obj is None:
            return self.has_module_permission(request)
        return access(request).may(obj.tenant, Right.ADMINISTER)

    has_change_permission = has_view_permission
    has_delete_permission = has_view_permission

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Only what the page's own filter asks for."""
        return lookup == "role__exact"

    def get_queryset(self, request: HttpRequest) -> QuerySet[TenantMember]:
        managed = access(request).tenants_with(Right.ADMINISTER)
        # A membership of nobody, as after an edit by hand, is not there: it lets nobody in.
        members = super().get_queryset(request).select_related("user")
        return members if managed is None else members.filter(tenant__in=sorted(managed))

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        return type(
            "BoundMemberForm", (form,), {"managed": access(request).tenants_with(Right.ADMINISTER)}
        )

    def save_model(self, request: HttpRequest, obj: TenantMember, form: Any, change: bool) -> None:
        before = shown_member(TenantMember.objects.get(pk=obj.pk)) if change else None
        super().save_model(request, obj, form, change)
        action = Action.MEMBER_CHANGE if change else Action.MEMBER_ADD
        _record(request, action, obj, before=before, after=shown_member(obj))

    def delete_model(self, request: HttpRequest, obj: TenantMember) -> None:
        before = shown_member(obj)
        super().delete_model(request, obj)
        _record(request, Action.MEMBER_REMOVE, obj, before=before)


def _record(request: HttpRequest, action: Action, member: TenantMember, **changes: Any) -> None:
    name = member.user.get_username()
    record(access(request).author, action, name, tenant=member.tenant, **changes)
