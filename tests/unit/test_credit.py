"""Credit: what executors can take now is dispatched, and no more; no type starves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.repository.dispatch import InFlight
from jobs.repository.nodes import Node
from scheduler.credit import FLOOR, credits, share
from tests.builders import NOW


def node(name: str, *job_types: str, capacity: int = 10) -> Node:
    return Node(name, "executor", NOW, job_types, capacity)


def held(job_type: str, by: str, count: int) -> InFlight:
    return InFlight(job_type, by, count)


def queued(job_type: str, count: int) -> InFlight:
    return InFlight(job_type, None, count)


def credit_of(nodes: list[Node], in_flight: list[InFlight], *job_types: str) -> dict[str, int]:
    return credits(job_types or ("a",), nodes, in_flight)[1]


def test_the_capacity_of_all_executors_is_credit() -> None:
    assert credit_of([node("one", "a"), node("two", "a")], []) == {"a": 20}


def test_what_executors_hold_and_what_is_on_the_way_is_subtracted() -> None:
    in_flight = [held("a", "one", 4), queued("a", 3)]

    assert credit_of([node("one", "a")], in_flight) == {"a": 3}


def test_another_type_in_the_same_executor_counts_too() -> None:
    in_flight = [held("b", "one", 6)]

    assert credit_of([node("one", "a", "b")], in_flight, "a", "b") == {"a": 4, "b": 4}


def test_jobs_of_an_executor_that_is_gone_block_nobody() -> None:
    assert credit_of([node("one", "a")], [held("a", "gone", 500)]) == {"a": 10}


def test_more_in_flight_than_capacity_is_no_negative_credit() -> None:
    in_flight = [held("a", "one", 30)]

    assert credit_of([node("one", "a"), node("two", "a")], in_flight) == {"a": 10}


def test_a_full_executor_has_no_credit() -> None:
    assert credit_of([node("one", "a")], [held("a", "one", 10)]) == {"a": 0}


def test_queued_jobs_count_against_all_that_may_take_them() -> None:
    nodes = [node("one", "a", capacity=10), node("two", "a", "b", capacity=30)]

    assert credit_of(nodes, [queued("a", 20)], "a", "b") == {"a": 20, "b": 15}


def test_a_type_that_nobody_serves_gets_the_floor() -> None:
    assert credit_of([], []) == {"a": FLOOR}
    assert credit_of([node("one", "b")], [queued("a", 60)]) == {"a": FLOOR - 60}
    assert credit_of([], [queued("a", FLOOR + 1)]) == {"a": 0}


def test_an_executor_that_drains_serves_nobody() -> None:
    assert credit_of([node("one", "a", capacity=0)], []) == {"a": FLOOR}


def test_the_floor_is_dispatched_though_an_executor_drains() -> None:
    assert granted({"a": 3, "b": 2}, [node("one", "a", capacity=0), node("two", "b")]) == {
        "a": 3,
        "b": 2,
    }


def granted(
    wanted: dict[str, int],
    nodes: list[Node],
    in_flight: list[InFlight] | None = None,
    *,
    limit: int = 1000,
) -> dict[str, int]:
    groups, credit = credits(wanted, nodes, in_flight or [])
    capped = {job_type: min(wanted[job_type], left) for job_type, left in credit.items()}
    return share(capped, groups, limit)


def test_one_type_gets_all_that_it_wants_and_can_have() -> None:
    assert granted({"a": 4}, [node("one", "a")]) == {"a": 4}
    assert granted({"a": 40}, [node("one", "a")]) == {"a": 10}


def test_what_one_type_leaves_the_others_get() -> None:
    nodes = [node("one", "a", "b", "c")]

    assert granted({"a": 100, "b": 2, "c": 100}, nodes) == {"a": 4, "b": 2, "c": 4}


def test_the_batch_is_shared_too() -> None:
    nodes = [node("one", "a", "b", capacity=1000)]

    assert granted({"a": 900, "b": 900}, nodes, limit=100) == {"a": 50, "b": 50}


def test_the_batch_is_shared_with_types_that_nobody_serves() -> None:
    assert granted({"a": 900, "b": 900}, [node("one", "a")], limit=50) == {"a": 10, "b": 40}


def test_executors_of_one_type_only_leave_the_mixed_ones_to_the_others() -> None:
    nodes = [node("mixed", "a", "b"), node("only-a", "a")]

    assert granted({"a": 10, "b": 10}, nodes) == {"a": 10, "b": 10}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_one_free_place_goes_to_the_type_that_has_fewer_in_flight(names: tuple[str, str]) -> None:
    slow, fast = names
    nodes = [node("one", "a", "b", capacity=4)]
    in_flight = [held(slow, "one", 2), held(fast, "one", 1)]

    assert granted({slow: 100, fast: 100}, nodes, in_flight) == {slow: 0, fast: 1}


def test_places_that_become_free_one_by_one_are_shared() -> None:
    nodes = [node("one", "a", "b", "c", capacity=6)]
    running = Counter(a=6)

    for _ in range(6):
        # A job of whoever has the most ends.
        running[max(running, key=running.__getitem__)] -= 1
        in_flight = [held(job_type, "one", count) for job_type, count in running.items()]
        running.update(granted(dict.fromkeys("abc", 100), nodes, in_flight))

    assert running == Counter(a=2, b=2, c=2)


names = st.sampled_from("abcd")
nodes_of = st.lists(
    st.tuples(st.frozensets(names, min_size=1), st.integers(0, 50)), max_size=4
).map(lambda each: [node(str(i), *sorted(t), capacity=c) for i, (t, c) in enumerate(each)])
in_flights = st.lists(
    st.builds(InFlight, names, st.one_of(st.none(), st.sampled_from("0123x")), st.integers(0, 60)),
    max_size=6,
)


@given(nodes_of, in_flights, st.dictionaries(names, st.integers(0, 200)), st.integers(1, 300))
def test_nobody_is_ever_sent_more_than_can_be_taken(
    nodes: list[Node], in_flight: list[InFlight], wanted: dict[str, int], limit: int
) -> None:
    groups, credit = credits(wanted, nodes, in_flight)
    free = {pool.job_types: pool.free for pool in groups}
    capped = {job_type: min(count, credit[job_type]) for job_type, count in wanted.items()}
    served = {job_type for pool in groups for job_type in pool.job_types}

    grants = share(capped, groups, limit)

    assert grants.keys() == wanted.keys()
    assert all(0 <= count <= capped[job_type] for job_type, count in grants.items())
    assert sum(grants.values()) <= limit
    # Together they get no more than the pools that may take them have free (but for rounding up).
    given_out = sum(count for job_type, count in grants.items() if job_type in served)
    reachable = sum(left for types, left in free.items() if types & wanted.keys())
    assert given_out < reachable + 1 or given_out == 0
    # And nothing is left over that somebody wants and could have.
    if sum(grants.values()) < limit:
        for job_type, count in grants.items():
            if count < capped[job_type]:
                left = sum(pool.free for pool in groups if job_type in pool.job_types)
                assert left < 1


@pytest.mark.parametrize("workers", [2, 3, 7])
@pytest.mark.parametrize("free", [0, 1, 2, 10, 1_000])
def test_workers_that_dispatch_together_take_all_and_hardly_more(workers: int, free: int) -> None:
    nodes = [node("one", "a", capacity=1_000)]
    in_flight = [held("a", "one", 1_000 - free)]

    taken = [credits(["a"], nodes, in_flight, 1 / workers)[1]["a"] for _ in range(workers)]

    assert free <= sum(taken) < free + workers


def test_a_workers_part_is_what_its_pools_give_out() -> None:
    nodes = [node("one", "a", "b"), node("two", "b", capacity=4)]

    groups, credit = credits(["a", "b"], nodes, [], 1 / 2)

    assert credit == {"a": 5, "b": 7}
    assert Counter(share({"a": 5, "b": 7}, groups, 100)).total() == 7


@pytest.mark.parametrize("queued_already", [0, 1, 99, 100, 150])
def test_workers_share_the_floor_of_a_type_that_nobody_serves(queued_already: int) -> None:
    in_flight = [queued("a", queued_already)]

    [taken] = {credits(["a"], [], in_flight, 1 / 3)[1]["a"] for _ in range(3)}

    left = max(0, FLOOR - queued_already)
    assert left <= 3 * taken < left + 3
