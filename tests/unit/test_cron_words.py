"""Expressions in words: those of cron-descriptor, where these say what our rules do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.cron_words import in_words
from jobs.errors import InvalidCron

WORDS = {
    "* * * * *": "Every minute",
    "*/1 * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "0 */2 * * *": "Every 2 hours",
    "30 */2 * * *": "At 30 minutes past the hour, every 2 hours",
    "0 2 * * *": "At 02:00",
    "0 9 * * mon-fri": "At 09:00, Monday through Friday",
    "0 9 * * 7": "At 09:00, only on Sunday",
    "0 9 * * 0,7": "At 09:00, only on Sunday",
    "0 9 * * fri-sun": "At 09:00, Friday through Sunday",
    "0 0 1 jan *": "At 00:00, on day 1 of the month, only in January",
    "0-0 5 * * *": "At 05:00",
    # The last step of a round is shorter.
    "*/25 * * * *": "At 0, 25, and 50 minutes past the hour",
    "0 */10 * * *": "At 00:00, 10:00 and 20:00",
    "0 0 */10 * *": "At 00:00, on day 1, 11, 21, and 31 of the month",
    # Two restricted day fields are alternatives.
    "0 2 1 * 1": "At 02:00, on day 1 of the month, or on Monday",
    "0 2 1 * 1-3": "At 02:00, on day 1 of the month, or on Monday, Tuesday, and Wednesday",
    "0 2 1-31 * 1": "At 02:00",
    # One that starts with a star is none.
    "0 2 */16 * 1": "At 02:00, on day 1 and 17 of the month, but only on Monday",
    "0 2 1 * */3": ("At 02:00, on day 1 of the month, but only on Wednesday, Saturday, and Sunday"),
    "* 1,3 * * *": "Every minute, in the hours of 01:00 and 03:00",
}

_items = st.one_of(
    st.just("*"),
    st.integers(2, 6).map("*/{}".format),
    st.integers(1, 6).map(str),
    st.tuples(st.integers(1, 3), st.integers(3, 6)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
)
_fields = st.lists(_items, min_size=1, max_size=2).map(",".join)


@pytest.mark.parametrize("expression", WORDS)
def test_the_words_agree_with_the_rules(expression: str) -> None:
    assert in_words(expression) == WORDS[expression]


@given(st.tuples(*[_fields] * 5).map(" ".join))
def test_every_usable_expression_has_words(expression: str) -> None:
    assert in_words(expression)


def test_what_cannot_be_used_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidCron, match=r'^cron hour "25" must be from 0 to 23'):
        in_words("0 25 * * *")
