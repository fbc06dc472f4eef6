"""Topics of `scribe` that nobody reads end at all their holders, and begin again when somebody asks for them."""

import pytest

from resprout.filters.predicate import parse_predicate
from resprout_lab.scribe.log import EndTopic, PlaceBundle, TakeLead, TopicLog
from resprout_lab.scribe.trees import Trees
from resprout_lab.scribe.wishes import DIRECTORY, TopicNews, TopicWishes
from tests.spread.scribe_net import OPTIONS, TreeNet, scribed
from tests.stacks.scribe_runs import ScribePlayed, fault, play, ring

GONE = '[[client]]\nname = "gone"\nbroker = "b1"\nsubscribe = ["t"]\n'
SHORT = "keep_us = 1000000\nend_us = 1000000"


def late(topics: str, start: str, operations: int = 10) -> str:
    return f"""
[[workload]]
kind = "random"
topics = [{topics}]
operations = {operations}
interval = "50ms"
start = "{start}"
mix = {{ total = 1.0 }}
"""


def ended(*more: str, brokers: int = 5, subscribe: str = '"other"', clients: str = "") -> ScribePlayed:
    """Publications on `t` from 3 s to 4 s; its reader crashed at 1 s, and its session ends at 31 s. So the topic ends
    at 32 s. Publications on `other` at 60 s."""
    scenario = ring(
        brokers, operations=20, subscribe=subscribe, options=SHORT, clients=GONE + clients,
        more=late('"other"', "60s") + fault("1s", "crash", "gone") + "".join(more),
    )  # fmt: skip
    played = play(scenario)
    played.check_clean()
    return played


def test_a_topic_that_nobody_reads_is_dropped_at_all_holders() -> None:
    played = ended()
    assert not played.holding("t") and played.holding("other")
    assert all("t" not in broker.owners.held and "t" not in broker.trees.places for broker in played.brokers.values())
    assert not any(broker.errands.last("t") for broker in played.brokers.values())


def test_a_topic_with_a_reader_does_not_end() -> None:
    played = ended(subscribe='"t", "other"')
    assert len(played.holding("t")) == 3


def test_a_topic_that_a_filter_matches_does_not_end() -> None:
    reader = '[[client]]\nname = "filter"\nbroker = "b2"\nsubscribe = ["+"]\n'
    played = ended(clients=reader)
    assert len(played.holding("t")) == 3
    assert len(played.delivered("filter")) > 100


def test_a_topic_that_ended_begins_again_and_continues_its_numbers() -> None:
    """Clients whose publications have numbers from the first log publish on the second one, and nothing stalls."""
    wakes = '[[client]]\nname = "reader"\nbroker = "b4"\nsubscribe = ["t"]\n'
    back = fault("1s", "crash", "reader") + fault("40s", "recover", "reader")
    played = ended(late('"t"', "45s"), back, clients=wakes)
    assert len(played.holding("t")) == 3
    log = played.holding("t")[played.leader("t")].log
    assert log.begins >= 100 and log.position - log.begins >= 50, "five clients, 20 publications and then 10"
    assert len(played.delivered("reader")) == log.position - log.begins
    claimed = [
        row.tseq for row in played.rows if row.kind == "deliver" and row.node == "reader" and row.tseq is not None
    ]
    assert claimed == sorted(claimed) and len(set(claimed)) == len(claimed)


def test_a_filter_that_comes_later_does_not_bring_back_topics_that_ended() -> None:
    """A broker that reads the directory joins no topic before it knows whether the topic has ended since."""
    trees = Trees(OPTIONS, TreeNet({}).members["root"], DIRECTORY)
    wishes = TopicWishes(trees, lambda client: False, lambda topic: None)
    wishes.want("c0", parse_predicate("+"))
    wishes.hear_news(TopicNews("old", "g1"), is_behind=True)
    wishes.hear_news(TopicNews("again", "g2"), is_behind=True)
    wishes.hear_news(TopicNews("old", "g1", is_ended=True), is_behind=True)
    assert set(trees.places) == {DIRECTORY}
    wishes.hear_news(TopicNews("again", "g3"), is_behind=False)
    assert set(trees.places) == {DIRECTORY, "again"}
    wishes.hear_news(TopicNews("again", "g2", is_ended=True), is_behind=False)
    assert set(wishes.topics) == {"again"}, "the announcement of the next log came before"


def test_a_filter_gets_a_topic_that_begins_again_from_its_beginning() -> None:
    """Although its positions continue, nobody is told that messages are missing."""
    reader = '[[client]]\nname = "filter"\nbroker = "b2"\nsubscribe = ["+"]\n'
    back = fault("1s", "crash", "filter") + fault("40s", "recover", "filter")
    played = ended(back, late('"t"', "45s"), clients=reader)
    assert played.holding("t")[played.leader("t")].log.begins >= 100
    assert len(played.delivered("filter")) >= 100


@pytest.mark.parametrize("at", ["30s", "32s", "32006ms", "32010ms", "32015ms", "33s"])
@pytest.mark.parametrize("broker", [f"b{number}" for number in range(5)])
def test_a_holder_that_dies_around_the_end_leaves_nothing_behind(broker: str, at: str) -> None:
    played = ended(fault(at, "crash", broker), late('"t"', "45s"), late('"other"', "90s"))
    assert not played.holding("t")


@pytest.mark.parametrize("broker", [f"b{number}" for number in range(5)])
def test_a_holder_that_was_frozen_or_cut_off_learns_that_the_topic_ended(broker: str) -> None:
    """It would otherwise try to lead the old log for ever, and refuse the next one."""
    assert not ended(fault("30s", "freeze", broker), fault("38s", "unfreeze", broker)).holding("t")
    cut = fault("30s", "partition", broker) + '[[fault]]\nat = "38s"\nkind = "heal"\n'
    played = ended(cut, late('"t"', "45s"), late('"other"', "90s"))
    assert not played.holding("t")


def test_a_publication_that_is_repeated_after_the_end_of_its_topic_has_one_place() -> None:
    """Its publisher was frozen, its broker died before the receipt, and the topic ended meanwhile. The next log gave it
    a second place."""
    clients = """
[[client]]
name = "writer"
broker = "b1"
[[client]]
name = "reader"
broker = "b2"
subscribe = ["t"]
[[client]]
name = "other"
broker = "b0"
subscribe = ["other"]
"""
    first = late('"t"', "3s", 1).replace("50ms", "1ms").replace("[[workload]]", '[[workload]]\nclients = ["writer"]')
    played = play(
        ring(
            5, subscribe="", topics='"other"', options=SHORT, clients=GONE.replace("b1", "b4") + clients,
            more=first + late('"other"', "80s", 1) + fault("3022ms", "crash", "b1")
            + fault("3022ms", "freeze", "writer") + fault("3200ms", "crash", "reader")
            + fault("60s", "unfreeze", "writer") + fault("1s", "crash", "gone") + fault("45s", "recover", "gone"),
        )
    )  # fmt: skip
    played.check_clean()
    assert [row.time_us for row in played.rows if row.kind == "topic_ended"], "the topic ended meanwhile"
    assert len(played.delivered("reader")) == 1, "the publication had a place before"
    told = [
        row for row in played.rows if (row.kind, row.node, row.receipt, row.seq) == ("receipt", "writer", "safe", 1)
    ]
    assert min(row.time_us for row in told) > 60_000_000, "the receipt was lost with its broker"


def test_something_published_meanwhile_keeps_the_topic() -> None:
    """The decision to end a topic counts only where its log still is as it was when that was proposed."""
    log = TopicLog()
    log.apply(TakeLead("b0", 7, 9))
    assert (log.position, log.begins, log.next_tseq) == (7, 7, 9)
    log.apply(PlaceBundle(scribed(1).bundle, 0))
    log.apply(EndTopic(7))
    assert not log.is_ended
    log.apply(TakeLead("b1", 100, 100))
    assert log.position == 8, "only the first command says where a log begins"
    assert TopicLog.load(log.dump()).begins == 7


def test_a_broker_holds_more_than_ten_thousand_topics() -> None:
    """It refused more at 10,000 before. Four workloads draw from 10,000 topics each, so that most publications begin a
    topic."""
    topics = [", ".join(f'"{letter}{number}"' for number in range(10_000)) for letter in "tuvw"]
    more = "".join(late(drawn, "30s", 3_200).replace("50ms", "1ms") for drawn in topics[1:])
    played = play(
        ring(1, operations=3_200, interval="1ms", topics=topics[0], subscribe='"#"', options="backups = 0", more=more)
    )
    played.check_clean()
    (broker,) = played.brokers.values()
    assert len(broker.owners.held) > 10_000 and DIRECTORY in broker.owners.held
