"""The one piece of Markdown in the OpenAPI document, for its page."""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
def code_spans(text: str) -> SafeString:
    """Escaped text, with what stands between backticks set as code."""
    return mark_safe(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))  # noqa: S308 (escaped)
