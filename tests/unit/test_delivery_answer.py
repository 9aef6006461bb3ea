"""What is kept of an answer: nothing of the secrets that its target echoed."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from html import escape
from urllib.parse import quote, quote_plus

import pytest

from executor.delivery.answer import EXCERPT_BYTES, excerpt
from executor.delivery.veil import forms_of, veiled

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
    assert veiled(text, forms_of([TOKEN])) == kept


def test_what_is_too_short_to_be_a_secret_stays() -> None:
    assert veiled("on and on", forms_of(["on"])) == "on and on"


ODD = 'p"ss w\\rd/<1>'


@pytest.mark.parametrize(
    "echo",
    [
        json.dumps(ODD)[1:-1],
        json.dumps(ODD)[1:-1].replace("/", "\\/"),
        quote(ODD),
        quote(ODD, safe=""),
        quote(ODD, safe="").lower(),
        quote_plus(ODD),
        escape(ODD),
    ],
)
def test_an_escaped_secret_is_not_kept(echo: str) -> None:
    assert veiled(f"<{echo}>", forms_of([f"Bearer {ODD}", ODD])) == "<***>"


def test_the_longest_form_of_a_secret_is_hidden_first() -> None:
    assert veiled("secret-long secret", forms_of(["secret", "secret-long"])) == "*** ***"


@pytest.mark.parametrize("scheme", ["Basic", "basic"])
@pytest.mark.parametrize("pair", ["aladdin:open sesame", "aladdin:größe", "aladdin:"])
def test_the_name_and_password_within_basic_are_not_kept(scheme: str, pair: str) -> None:
    name, _, password = pair.partition(":")
    header = f"{scheme} {b64encode(pair.encode()).decode()}"

    assert veiled(f"<{pair}> <{name}> <{header}>", forms_of([header])) == "<***> <***> <***>"
    assert not password or veiled(f"<{password}>", forms_of([header])) == "<***>"


@pytest.mark.parametrize("header", ["Basic !", "Basic /////w==", "Basic", "Basic Og=="])
def test_what_is_not_basic_after_all_does_no_harm(header: str) -> None:
    assert veiled("as it was", forms_of([header])) == "as it was"


@pytest.mark.parametrize("charset", ["utf-8", "utf-16-le", "utf-16-be", "latin-1"])
def test_no_charset_hides_an_echo(charset: str) -> None:
    labelled = {"content-type": f"text/plain; charset={charset}"}

    plain = excerpt(b"you sent sk-abcdefgh", labelled, [TOKEN])
    as_labelled = excerpt("you sent sk-abcdefgh".encode(charset), labelled, [TOKEN])

    assert b"sk-abcdefgh" not in plain.encode(charset)
    assert as_labelled == "you sent ***"


def test_long_secrets_take_little_time() -> None:
    secrets = [f"{number}{'//0' * 2_700}" for number in range(20)]
    body = b"0//" * (EXCERPT_BYTES // 3)

    begun = time.thread_time()
    excerpt(body, {}, secrets)
    assert time.thread_time() - begun < 0.5
