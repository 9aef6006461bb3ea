"""What is kept of an answer: nothing of the secrets that its target echoed."""

from __future__ import annotations

import pytest

from executor.delivery.answer import veiled

TOKEN = "Bearer sk-abcdefgh"  # noqa: S105 - a made-up one


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"you sent {TOKEN}, thank you", "you sent ***, thank you"),
        ("token sk-abcdefgh!", "token ***!"),
        ("cut at the limit: Bearer sk-abc", "cut at the limit: ***"),
        ("cut at the limit: sk-abcd", "cut at the limit: ***"),
        ("ends with sk-", "ends with sk-"),
        ("nothing of it", "nothing of it"),
        ("", ""),
    ],
)
def test_an_echoed_secret_is_not_kept_whole_or_cut(text: str, kept: str) -> None:
    assert veiled(text, [TOKEN]) == kept


def test_what_is_too_short_to_be_a_secret_stays() -> None:
    assert veiled("on and on", ["on"]) == "on and on"
