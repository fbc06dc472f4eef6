"""Topics in their order, against a search of all of them."""

import random

from resprout.filters.predicate import topic_matches
from resprout.filters.topic_order import TopicOrder
from tests.soak import cases

LEVELS = ("a", "b", "a-", "", "$kv", "0", "a b", "\u00e9", "\n")


def _drawn(rng: random.Random, levels: tuple[str, ...]) -> str:
    return "/".join(rng.choice(levels) for _ in range(rng.randint(1, 4)))


def test_a_search_finds_what_matches_behind_a_topic_in_order() -> None:
    for seed in range(cases(100, 20_000)):
        rng = random.Random(seed)
        topics = {_drawn(rng, LEVELS) for _ in range(rng.randint(0, 20))}
        order = TopicOrder(topics)
        for _ in range(5):
            topic = _drawn(rng, LEVELS)
            if topic in topics:
                order.remove(topic)
                topics.remove(topic)
            else:
                order.add(topic)
                topics.add(topic)
            topic_filter = _drawn(rng, (*LEVELS, "+")) + rng.choice(("", "", "/#"))
            after = rng.choice((*sorted(topics), ""))
            wanted = sorted(each for each in topics if topic_matches(topic_filter, each) and each > after)
            assert list(order.find(topic_filter, after)) == wanted, (topic_filter, after)
            assert order.looked_at <= len(topics) + 1


def test_everything_is_found_but_what_is_hidden_from_wildcards() -> None:
    order = TopicOrder(("$kv/b/k", "a", "a/b", "b"))
    assert list(order.find("#")) == ["a", "a/b", "b"]
    assert list(order.find("+/b")) == ["a/b"]
    assert list(order.find("$kv/#")) == ["$kv/b/k"]
