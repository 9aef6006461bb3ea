"""What statuses mean, and what may be said about them."""

from __future__ import annotations

import pytest

from jobs.delivery.statuses import Statuses, Verdict, check_statuses, classify


@pytest.mark.parametrize("code", range(200, 600))
def test_without_lists_every_status_has_one_meaning(code: int) -> None:
    if 200 <= code < 300:
        meaning = Verdict.DONE
    elif code in (408, 425, 429) or code >= 500:
        meaning = Verdict.RETRY
    else:
        meaning = Verdict.TERMINAL

    assert classify(code) is meaning


@pytest.mark.parametrize(
    ("code", "expected", "retryable", "terminal", "meaning"),
    [
        (200, [202], [], [], Verdict.TERMINAL),
        (202, [202], [], [], Verdict.DONE),
        (404, ["4xx"], [404], [404], Verdict.DONE),
        (503, [503], [], ["5xx"], Verdict.DONE),
        (404, [], [404], [404], Verdict.TERMINAL),
        (503, [], ["5xx"], [503], Verdict.TERMINAL),
        (500, [], [], [503], Verdict.RETRY),
        (404, [], ["4xx"], [], Verdict.RETRY),
        (302, [], ["3xx"], [], Verdict.RETRY),
    ],
)
def test_the_first_list_that_holds_a_status_decides(
    code: int, expected: Statuses, retryable: Statuses, terminal: Statuses, meaning: Verdict
) -> None:
    assert classify(code, expected=expected, retryable=retryable, terminal=terminal) is meaning


def test_codes_and_classes_pass() -> None:
    assert check_statuses([200, "2xx", 599, "5xx"]) == [200, "2xx", 599, "5xx"]
    assert check_statuses([]) == []


@pytest.mark.parametrize(
    "value",
    [
        None,
        200,
        "2xx",
        {"2xx": 1},
        [199],
        [600],
        ["1xx"],
        ["6xx"],
        ["2XX"],
        ["200"],
        [True],
        [200.0],
    ],
)
def test_what_names_no_status_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must (be|hold)"):
        check_statuses(value)


def test_a_list_has_an_end() -> None:
    with pytest.raises(ValueError, match="more than 50"):
        check_statuses([200] * 51)
