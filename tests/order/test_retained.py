"""The base of what becomes wanted: everything that may come up again, from here or from a neighbour."""

from resprout.core.guarantee import Guarantee
from resprout.order.entry import RecentlyAcked
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Levels
from resprout.order.reports import FEW_ENTRIES, Retained
from resprout.order.totals.levels import TotalAcks
from tests.order.examples import bundle


def test_what_is_in_the_log_says_how_far_each_origin_has_come() -> None:
    log, source = Log(1), Link("n", 1, 1, None)
    retained = Retained(log, {"n": source}, TotalAcks(log, 1, lambda entry: None), RecentlyAcked())
    log.append(bundle(1, 3), None, None, 0, 1, 0, ())
    log.append(bundle(4, 2), None, None, 0, 1, 0, ())
    log.append(bundle(7, publisher="q", incarnation=2), source, None, 1, 1, 0, ())
    log.append(bundle(1, guarantee=Guarantee.EVENTUAL), None, None, 0, 1, 0, ())
    everything = {("p", "ordered", 1): 5, ("q", "ordered", 2): 7, ("p", "eventual", 1): 1}
    assert retained.marks() == everything
    assert retained.marks() is retained.marks(), "asked for often, counted once"
    log.append(bundle(8, publisher="q", incarnation=2), source, None, 1, 1, 0, ())
    assert retained.marks() == {**everything, ("q", "ordered", 2): 8}


def test_what_a_neighbour_may_still_keep_counts_until_it_has_certainly_heard_the_last_of_it() -> None:
    log, acked = Log(1), RecentlyAcked()
    link = Link("n", 1, 1, None, acked)
    retained = Retained(log, {"n": link}, TotalAcks(log, 1, lambda entry: None), acked)
    slow = log.append(bundle(1), None, None, 0, 1, 0, ("reader",))
    quick = log.append(bundle(1, publisher="q"), None, None, 0, 1, 0, ())
    for entry in (slow, quick):
        link.sent.add(entry)
        log.show(log.held_back.take_first())
    news = link.take_report(Levels((2,), (2,), (), (0,), 2))
    for reach, entry in news.reaches:
        log.count_reach(entry, reach)
    for level, entry in news.levels:
        log.count_level(entry, level)
    assert quick.bundle is None and slow.bundle is not None and len(link.sent.entries) == 2
    both = {("p", "ordered", 1): 1, ("q", "ordered", 1): 1}
    assert retained.marks() == both, "the neighbour has not heard that the quick one is through here"
    assert link.report() is not None
    assert list(link.sent.entries.values()) == [slow], "it does not wait for the slow one"
    log.append(bundle(2), None, None, 0, 1, 0, ())
    both[("p", "ordered", 1)] = 2
    assert retained.marks() == both, "the report may be lost with this broker"
    acked.turn(10, 10)
    log.append(bundle(3), None, None, 0, 1, 0, ())
    assert retained.marks() == {**both, ("p", "ordered", 1): 3}
    acked.turn(20, 10)
    log.append(bundle(4), None, None, 0, 1, 0, ())
    assert retained.marks() == {("p", "ordered", 1): 4}


def test_publications_and_subscriptions_in_turn_do_not_have_the_whole_log_looked_at_each_time() -> None:
    """Two clients that published and subscribed in turn had all entries looked at for each subscription: beside them,
    the subscription of another client was not confirmed within a minute."""
    log = Log(1)
    retained = Retained(log, {}, TotalAcks(log, 1, lambda entry: None), RecentlyAcked())
    for number in range(1, 4 * FEW_ENTRIES + 1):
        log.append(bundle(number), None, None, 0, 1, 0, ("reader",))
    first = retained.marks()
    before = dict(first)
    for number in range(1, FEW_ENTRIES // 4):
        log.append(bundle(number, publisher="q"), None, None, 0, 1, 0, ("reader",))
        assert retained.marks() == {**before, ("q", "ordered", 1): number}
    assert retained.searches == 1 and first == before, "whoever asked before has what was there then"
    for number in range(FEW_ENTRIES // 4, 4 * FEW_ENTRIES):
        log.append(bundle(number, publisher="q"), None, None, 0, 1, 0, ("reader",))
        retained.marks()
    assert retained.searches <= 6, "a search for every so many new entries, of which there are more each time"
