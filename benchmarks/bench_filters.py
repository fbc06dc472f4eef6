"""How fast the index finds the subscriptions of a publication, next to asking each subscription in turn.

Each workload has as many subscriptions as a busy broker: with conditions by value, by range or mixed, either all on one
topic or spread over many topics, a few under wildcards. The publications are such that a handful of them match.
"""

import random
from collections.abc import Callable

import msgspec

from benchmarks.measure import Measure, interleaved
from resprout.core.limits import AttributeValue
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate, parse_predicate

Publication = tuple[str, dict[str, AttributeValue]]

SUBSCRIPTIONS = 100_000
GOAL = "a publication against 100,000 subscriptions in well under a millisecond"


class Market(msgspec.Struct, frozen=True):
    """Where things are traded: on one topic with many symbols, or on many topics with few symbols each."""

    title: str
    topics: int
    symbols: int

    def topic_filter(self, rng: random.Random) -> str:
        if self.topics == 1:
            return "market/trades"
        return f"market/{rng.randrange(self.topics // 50)}/{'+' if rng.random() < 0.02 else rng.randrange(50)}"

    def symbol(self, rng: random.Random) -> str:
        return f"S{rng.randrange(self.symbols)}"

    def price(self, rng: random.Random) -> float:
        return round(rng.uniform(0, 5 * self.symbols), 2)


MARKETS = (Market("one topic", 1, 20_000), Market("10,000 topics", 10_000, 20))
Draw = Callable[[random.Random, Market], str]


def equality(rng: random.Random, market: Market) -> str:
    return f"symbol = '{market.symbol(rng)}'"


def ranges(rng: random.Random, market: Market) -> str:
    low = market.price(rng)
    return f"price between {low} and {low + rng.uniform(1, 20)}"


def mixed(rng: random.Random, market: Market) -> str:
    symbol, price = market.symbol(rng), market.price(rng)
    return rng.choice(
        [
            f"symbol = '{symbol}' and price > {price}",
            f"kind = 'trade' and price between {price} and {price + 20}",
            f"symbol in ('{symbol}', '{market.symbol(rng)}') and not urgent = true",
            f"symbol like '{symbol}%' and kind != 'quote'",
            f"price >= {price} and price < {price + 10} and quantity > {rng.randrange(1000)}",
        ]
    )


def run(quick: bool = False) -> list[Measure]:
    size = SUBSCRIPTIONS // 20 if quick else SUBSCRIPTIONS
    measures: list[Measure] = []
    for market in MARKETS:
        for what, conditions in (("equality", equality), ("range", ranges), ("mixed", mixed)):
            measures.append(_matching(f"match {what}, {market.title}", size, market, conditions, 3 if quick else 5))
    return [*measures, *_changing(size, MARKETS[0], 3 if quick else 5)]


def _predicates(rng: random.Random, size: int, market: Market, conditions: Draw) -> list[Predicate]:
    return [parse_predicate(market.topic_filter(rng), conditions(rng, market)) for _ in range(size)]


def _publications(rng: random.Random, count: int, market: Market) -> list[Publication]:
    return [
        (
            market.topic_filter(rng).replace("+", "7"),
            {
                "symbol": market.symbol(rng),
                "price": market.price(rng),
                "quantity": rng.randrange(1000),
                "kind": rng.choice(["trade", "quote"]),
                "urgent": rng.random() < 0.1,
            },
        )
        for _ in range(count)
    ]


def _matching(name: str, size: int, market: Market, conditions: Draw, rounds: int) -> Measure:
    rng = random.Random(name)
    predicates = _predicates(rng, size, market, conditions)
    index: MatchIndex[int] = MatchIndex()
    for number, predicate in enumerate(predicates):
        index.add(number, predicate)
    publications = _publications(rng, 2000, market)
    matches = sum(len(index.match(topic, attributes)) for topic, attributes in publications) / len(publications)

    def indexed() -> int:
        for topic, attributes in publications:
            index.match(topic, attributes)
        return len(publications)

    def one_by_one() -> int:
        few = publications[:2]
        for topic, attributes in few:
            [number for number, predicate in enumerate(predicates) if predicate.matches(topic, attributes)]
        return len(few)

    fast, naive = interleaved(rounds, indexed, one_by_one)
    title = f"{name}: {size:,} subscriptions, {matches:.1f} match, {1e6 / fast:.0f} us each"
    return Measure(title, fast, "publications/s", "each subscription in turn", naive, GOAL)


def _changing(size: int, market: Market, rounds: int) -> list[Measure]:
    """Subscribing and unsubscribing while the index is full, and with a publication after every change."""
    rng = random.Random("changes")
    index: MatchIndex[int] = MatchIndex()
    for number, predicate in enumerate(_predicates(rng, size, market, mixed)):
        index.add(number, predicate)
    newcomers = _predicates(rng, 1000, market, mixed)
    publications = _publications(rng, 1000, market)
    texts = [predicate.where_text for predicate in newcomers]

    def parse() -> int:
        for text in texts:
            parse_predicate("market/trades", text)
        return len(texts)

    def change() -> int:
        for number, predicate in enumerate(newcomers):
            index.add(-number - 1, predicate)
        for number, predicate in enumerate(newcomers):
            index.remove(-number - 1, predicate)
        return 2 * len(newcomers)

    def change_and_publish() -> int:
        for number, (predicate, (topic, attributes)) in enumerate(zip(newcomers, publications, strict=True)):
            index.add(-number - 1, predicate)
            index.match(topic, attributes)
        for number, (predicate, (topic, attributes)) in enumerate(zip(newcomers, publications, strict=True)):
            index.remove(-number - 1, predicate)
            index.match(topic, attributes)
        return 2 * len(newcomers)

    changes, with_publications, parses = interleaved(rounds, change, change_and_publish, parse)
    full = f"index of {size:,} subscriptions"
    yardstick = "reading the conditions"
    return [
        Measure(f"add or remove, {full}", changes, "changes/s", yardstick, parses),
        Measure(f"change, then match a publication, {full}", with_publications, "pairs/s", yardstick, parses),
    ]


if __name__ == "__main__":
    for measure in run():
        print(f"{measure.name}: {measure.value:,.0f} {measure.unit} ({measure.ratio:,.1f} x {measure.yardstick})")
