"""Groups of what is under way, and the waits for them, their times computed by hand."""

import pytest

from dse.source.profile.issue import ANY_LEFT, GroupChange, Ways
from dse.source.profile.single_warp import SOURCES, Walk, WalkedCode, WalkedStep, walk

LATENCY = dict.fromkeys(SOURCES, 0.0) | {SOURCES[0]: 400.0, SOURCES[1]: 500.0}
COPIES, MBARRIER, QUEUES = 0, 1, 2
BY_NAME, COUNTED = Ways(copies=COPIES, settles=True), Ways(posts=True)
COMMIT = WalkedStep((), (), 0, 0.0, group=GroupChange(COPIES, closes=True, of_none=True))
ARMED = WalkedStep((), (), 0, 0.0, group=GroupChange(MBARRIER, closes=True))


def started(queue: int, source: int = 0, closes: bool = False) -> WalkedStep:
    change = GroupChange(queue, starts=True, closes=closes)
    return WalkedStep((), (), source, LATENCY[SOURCES[source]], chains=False, load=True, group=change)


def waiting(queue: int, left: int = ANY_LEFT) -> WalkedStep:
    return WalkedStep((), (), 0, 0.0, waits=[(queue, left)])


def walked(*steps: WalkedStep, ways: Ways = BY_NAME, more: int = 0) -> Walk:
    code = WalkedCode([steps], [-1], LATENCY, ways, slots=1, pipes=2, queues=QUEUES)
    (path,) = walk(code, [([0], more)]).values()
    return path


def test_a_wait_is_for_all_groups_but_the_latest():
    copies = [started(COPIES), COMMIT] * 3
    path = walked(*copies, waiting(COPIES, 1))
    assert path.cycles == (2 + 400) + 1  # the second begins at 2
    assert path.waits == pytest.approx(1 / 3)
    assert walked(*copies, waiting(COPIES, 1), waiting(COPIES, 1)).cycles == 2 + 400 + 2
    assert walked(*copies, waiting(COPIES, 1), waiting(COPIES, 0)).cycles == 4 + 400 + 1


def test_the_latest_result_of_a_group_is_waited_for():
    path = walked(started(COPIES, source=1), started(COPIES, source=0), COMMIT, waiting(COPIES, 0))
    assert path.cycles == 500 + 1
    assert path.latencies[:2].tolist() == [0.0, 1.0]


def test_a_group_of_no_copies_is_a_group():
    path = walked(started(COPIES), COMMIT, COMMIT, waiting(COPIES, 1), waiting(COPIES, 0))
    assert path.cycles == 400 + 2
    assert path.waits == 1 / 2 + 1 / 1
    assert walked(COMMIT, waiting(COPIES, 0)).cycles == 2


def test_mbarriers_are_waited_for_one_after_the_other():
    loads = [ARMED, started(MBARRIER), ARMED, started(MBARRIER, source=1)]  # armed of nothing at first
    assert walked(*loads, waiting(MBARRIER)).cycles == 1 + 400 + 1
    path = walked(*loads, waiting(MBARRIER), waiting(MBARRIER))
    assert path.cycles == 3 + 500 + 1
    assert walked(*loads, *[waiting(MBARRIER)] * 3).cycles == path.cycles + 1  # for nothing


def test_more_groups_than_are_kept_apart_are_waited_for_too():
    begun = [started(COPIES, source=1), COMMIT] + [started(COPIES), COMMIT] * 100
    assert walked(*begun, waiting(COPIES, 3)).cycles == 2 * 97 + 400 + 1


def test_accesses_that_wait_for_their_pipe_do_not_hold_up_the_warp():
    change = GroupChange(COPIES, starts=True, closes=True)
    access = WalkedStep((), (0,), 0, 400.0, pipe=0, interval=10.0, load=True, group=change)
    product = WalkedStep((0,), (), 0, 0.0, pipe=1, interval=10.0)
    assert walked(access, access, ways=COUNTED).cycles == 2
    path = walked(access, access, access, waiting(COPIES, 0), ways=COUNTED)
    assert path.cycles == 3 * 10 + 400 + 1
    assert (path.loads, path.waits, path.latencies[0]) == (3, 1, 1)
    assert walked(access, product, product, ways=COUNTED).cycles == 1 + 10 + 1  # what it reads is not watched
    assert walked(access, waiting(COPIES, 0), ways=COUNTED, more=9).cycles == 10 * (10 + 400 + 1)
