"""The workloads of scenarios: random publications, conversations, and a replicated bank.

`RandomApp` publishes without a meaning, and every choice is drawn: topic, guarantee, keys, attributes, size, pause.
With `churn`, the client also begins and ends extra subscriptions, at most `EXTRAS_MAX` at a time. They may overlap with
those it has, as a user's may, but never repeat one: the end of a subscription names it by what it says.
`draw_attributes`, `draw_where` and `draw_filter` draw attributes, and filters and conditions that suit them.

`ChatterApp` answers deliveries on other topics, which makes deep causal chains across topics and clients. A message
says how many answers to answers are left (attribute `depth`); at 0 no client answers, and no client answers more than
`answers_max` times, so every run ends. No client answers itself. `chain` names the first message of a conversation, for
people who read traces.

`BankApp` is a bank that is replicated by publishing its operations: each topic is a bank, each key an account. The
guarantee of an operation follows from what it needs: reading a balance is `eventual`; deposits commute, so `causal` (or
`fifo`) is enough; what can be refused, or depends on the balance (withdraw, transfer, interest), is `total`. `mix`
chooses the class. Every client of the workload is a teller, and a replica of each bank that it receives completely. A
replica must have seen everything: one whose subscriptions were confirmed only after the first bank opened, and one that
lost its memory in a crash, keeps no books and only works as a teller.

`BankLedger` has the books of one replica, in integer cents. It is deterministic: replicas that are given the same
withdrawals, transfers and interests in the same order, with the same deposits before each, hold the same balances. That
is what `total` promises and the judge checks. Operations:

| op | attributes | effect |
|---|---|---|
| balance | | none |
| deposit | amount | credits the account |
| withdraw | amount | debits it; refused when it would fall below zero |
| transfer | amount, to | debits the other key, credits `to` (a `key`, or `topic#key` of another bank); refused alike |
| interest | amount | credits balance * amount // 10,000 |

A message that is none of these, or touches an account that this replica does not hold, changes nothing.
"""

import heapq
import random
from collections.abc import Mapping, Sequence
from typing import Final

from resprout.core.bundle import Pair, pairs_of
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.core.timing import MESSAGE_ID, PRIORITY, PRIORITY_MAX
from resprout.edge.requests import (
    ClientNews,
    PublishRequest,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
    SubscriptionEnded,
    UnsubscribeRequest,
)
from resprout.scenario.app import Applied, AppWish, PacedApp, WakeAt
from resprout.scenario.model import BankOptions, ChatterOptions, ClientSpec, RandomOptions, WorkloadSpec

EXTRAS_MAX: Final = 4

KINDS: Final = ("a", "b", "c")
AMOUNT_MAX: Final = 999


class RandomApp(PacedApp):
    def __init__(self, spec: WorkloadSpec, options: RandomOptions, rng: random.Random, client: ClientSpec) -> None:
        super().__init__(spec, rng)
        self._options = options
        self._lasting = {(s.filter, s.where) for s in client.subscriptions}
        wanted = {s.filter for s in client.subscriptions}
        self._topics = [topic for topic in spec.topics if topic in wanted or not options.subscribed]
        self._extras: dict[tuple[str, str | None], str] = {}  # "asked", "confirmed" or "ending"

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if isinstance(news, SubscriptionConfirmed):
            if (news.filter, news.where) in self._extras:
                self._extras[news.filter, news.where] = "confirmed"
        elif isinstance(news, SubscriptionEnded):
            self._extras.pop((news.filter, news.where), None)
        elif isinstance(news, Refused) and isinstance(news.request, SubscribeRequest):
            self._extras.pop((news.request.filter, news.request.where), None)
        return super().told(news, now_us)

    def pause_us(self) -> int:
        return self.rng.randint(0, 2 * self.spec.interval_us)

    def operation(self, left: int) -> list[AppWish]:
        wishes: list[AppWish] = []
        if self._options.churn and self.rng.random() < self._options.churn:
            wishes += self._churn()
        topic = self.rng.choice(self._topics)
        guarantee = self.draw_guarantee()
        keys = self._keys(topic, guarantee)
        for _ in range(min(left, self._options.burst)):
            payload = self.draw_payload(self._size())
            attributes = draw_attributes(self.rng) if self._options.attributes else {}
            if self._options.priorities:
                attributes = {**attributes, PRIORITY: self.rng.randint(0, PRIORITY_MAX)}
            if self._options.ids and self.rng.random() < self._options.ids:
                attributes = {**attributes, MESSAGE_ID: f"m{self.rng.randrange(1 + self.spec.operations // 2)}"}
            delay_us = self._draw_us(self._options.delays, self._options.delay_max_us)
            ttl_us = self._draw_us(self._options.expiries, self._options.ttl_max_us)
            if delay_us:
                wish = PublishRequest(topic, payload, Guarantee.EVENTUAL, (), attributes, delay_us, ttl_us)
            else:
                wish = PublishRequest(topic, payload, guarantee, keys, attributes, 0, ttl_us)
            wishes.append(wish)
        return wishes

    def _draw_us(self, share: float, most_us: int) -> int:
        """Return a time, or 0."""
        return self.rng.randint(1, most_us) if share and self.rng.random() < share else 0

    def _keys(self, topic: str, guarantee: Guarantee) -> tuple[str, ...]:
        if not self.spec.keys:
            return ()
        least = 1 if guarantee is Guarantee.TOTAL else 0
        count = self.rng.randint(least, max(least, self._options.keys_max))
        return tuple(sorted({self._key(topic) for _ in range(count)}))

    def _key(self, topic: str) -> str:
        key = f"k{self.rng.randrange(self.spec.keys)}"
        if self._options.foreign_keys and self.rng.random() < self._options.foreign_keys:
            other = self.rng.choice(self.spec.topics)
            return key if other == topic else f"{other}#{key}"
        return key

    def _size(self) -> int:
        least = self._options.payload_min
        return self.spec.payload if least is None else self.rng.randint(least, self.spec.payload)

    def _churn(self) -> list[AppWish]:
        endable = [extra for extra, state in self._extras.items() if state == "confirmed"]
        if endable and (len(self._extras) >= EXTRAS_MAX or self.rng.random() < 0.5):
            extra = self.rng.choice(endable)
            self._extras[extra] = "ending"
            return [UnsubscribeRequest(*extra)]
        where = draw_where(self.rng) if self.rng.random() < self._options.churn_where else None
        extra = (draw_filter(self.rng, self.spec.topics), where)
        if len(self._extras) >= EXTRAS_MAX or extra in self._extras or extra in self._lasting:
            return []
        self._extras[extra] = "asked"
        return [SubscribeRequest(*extra)]


def draw_attributes(rng: random.Random) -> dict[str, AttributeValue]:
    """Each one is missing now and then, because a condition over nothing is the case people get wrong."""
    full: dict[str, AttributeValue] = {
        "amount": rng.randint(0, AMOUNT_MAX),
        "kind": rng.choice(KINDS),
        "ratio": rng.randint(0, 100) / 100,
        "urgent": rng.random() < 0.5,
    }
    return {name: value for name, value in full.items() if rng.random() < 0.9}


def draw_where(rng: random.Random) -> str:
    """A condition that holds for some of `draw_attributes` and not for others."""
    low, high = sorted((rng.randint(0, AMOUNT_MAX), rng.randint(0, AMOUNT_MAX)))
    kind, other = rng.sample(KINDS, 2)
    return rng.choice((
        f"amount > {low}",
        f"amount between {low} and {high}",
        f"amount <= {high} and kind != '{kind}'",
        f"kind = '{kind}'",
        f"kind in ('{kind}', '{other}') or amount >= {high}",
        f"kind like '{kind}%'",
        f"not (kind = '{kind}' or ratio < 0.{rng.randint(1, 9)})",
        "urgent = true",
        f"urgent = false and ratio >= 0.{rng.randint(1, 9)}",
        "ratio is null",
        f"amount is not null and amount != {low}",
    ))  # fmt: skip


def draw_filter(rng: random.Random, topics: Sequence[str]) -> str:
    """One of the topics, exactly or with a wildcard in place of one level or of the rest."""
    levels = rng.choice(topics).split("/")
    shape = rng.random()
    if shape < 0.5:
        return "/".join(levels)
    place = rng.randrange(len(levels))
    if shape < 0.75:
        return "/".join([*levels[:place], "+", *levels[place + 1 :]])
    return "/".join([*levels[:place], "#"])


class ChatterApp(PacedApp):
    def __init__(self, spec: WorkloadSpec, options: ChatterOptions, rng: random.Random, client: str) -> None:
        super().__init__(spec, rng)
        self._options = options
        self._client = client
        self._begun = 0
        self._answers_left = options.answers_max
        self._thoughts: list[tuple[int, int, PublishRequest]] = []
        """Answers in the making: when, a number that keeps their order, what."""

    @property
    def done(self) -> bool:
        return super().done and not self._thoughts

    def pause_us(self) -> int:
        return self.rng.randint(0, 2 * self.spec.interval_us)

    def operation(self, left: int) -> list[AppWish]:
        self._begun += 1
        return [self._say(self._options.depth, f"{self._client}-{self._begun}")]

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        depth = message.attributes.get("depth")
        chain = message.attributes.get("chain")
        if message.publisher == self._client or not isinstance(depth, int) or not isinstance(chain, str):
            return []
        if depth <= 0 or not self._answers_left or self.rng.random() >= self._options.answer:
            return []
        self._answers_left -= 1
        answer = self._say(depth - 1, chain)
        pause_us = self.rng.randint(0, self._options.think_max_us)
        if not pause_us:
            self._window.asked(1)
            return [answer]
        heapq.heappush(self._thoughts, (now_us + pause_us, -self._answers_left, answer))
        return [WakeAt(now_us + pause_us)]

    def woke(self, now_us: int) -> Sequence[AppWish]:
        said: list[AppWish] = []
        while self._thoughts and self._thoughts[0][0] <= now_us:
            said.append(heapq.heappop(self._thoughts)[2])
            self._window.asked(1)
        return said + list(super().woke(now_us))

    def _say(self, depth: int, chain: str) -> PublishRequest:
        attributes: dict[str, AttributeValue] = {"depth": depth, "chain": chain}
        keys = (f"k{self.rng.randrange(self.spec.keys)}",) if self.spec.keys else ()
        return PublishRequest(
            self.rng.choice(self.spec.topics), self.draw_payload(self.spec.payload), self.draw_guarantee(), keys,
            attributes,
        )  # fmt: skip


class BankApp(PacedApp):
    def __init__(
        self,
        spec: WorkloadSpec,
        options: BankOptions,
        rng: random.Random,
        held: Sequence[str],
        partners: Mapping[str, Sequence[str]],
        opening_us: int,
    ) -> None:
        """`held`: topics of which it is a replica. `partners`: for each topic, those it can send money to.
        `opening_us`: when the first teller of all may begin."""
        super().__init__(spec, rng)
        self._options = options
        self._partners = partners
        self._opening_us = opening_us
        self.ledger: BankLedger | None = BankLedger(held, options.initial) if held else None

    def start(self, now_us: int) -> Sequence[AppWish]:
        if now_us > self._opening_us:
            self.ledger = None
        return super().start(now_us)

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        applied = self.ledger.apply(message) if self.ledger is not None else None
        return [applied] if applied is not None else []

    def operation(self, left: int) -> list[AppWish]:
        topic = self.rng.choice(self.spec.topics)
        guarantee = self.draw_guarantee()
        keys, attributes = self._order(topic, guarantee)
        return [PublishRequest(topic, self.draw_payload(self.spec.payload), guarantee, keys, attributes)]

    def _order(self, topic: str, guarantee: Guarantee) -> tuple[tuple[str, ...], dict[str, AttributeValue]]:
        account = self._account()
        if guarantee is Guarantee.EVENTUAL:
            return (account,), {"op": "balance"}
        amount = self.rng.randint(1, self._options.amount_max)
        if guarantee is not Guarantee.TOTAL:
            return (account,), {"op": "deposit", "amount": amount}
        op = self.rng.choice(("withdraw", "transfer", "interest"))
        if op == "interest":
            return (account,), {"op": op, "amount": self.rng.randint(1, self._options.interest_max)}
        to = self._payee(topic, account) if op == "transfer" else None
        if to is None:
            return (account,), {"op": "withdraw", "amount": amount}
        return tuple(sorted((account, to))), {"op": op, "amount": amount, "to": to}

    def _payee(self, topic: str, account: str) -> str | None:
        """Another account of this bank or of a partner; None where there is no other account."""
        choices = [topic, *self._partners.get(topic, ())]
        bank = self.rng.choice(choices)
        if bank != topic:
            return f"{bank}#{self._account()}"
        if self.spec.keys == 1:
            return f"{choices[1]}#{account}" if len(choices) > 1 else None
        return next(to for to in iter(self._account, None) if to != account)

    def _account(self) -> str:
        return f"acc-{self.rng.randrange(self.spec.keys)}"


class BankLedger:
    def __init__(self, topics: Sequence[str], initial: int) -> None:
        self._topics = frozenset(topics)
        self._initial = initial
        self._balances: dict[Pair, int] = {}

    def balance(self, topic: str, key: str) -> int:
        return self._balances.get((topic, key), self._initial)

    def apply(self, message: Message) -> Applied | None:
        """Books it; None when it changes nothing here and is no attempt to."""
        amount = message.attributes.get("amount")
        accounts = pairs_of(message.topic, message.keys)
        if not isinstance(amount, int) or isinstance(amount, bool) or amount <= 0:
            return None
        if not accounts or not all(topic in self._topics for topic, _ in accounts):
            return None
        match message.attributes.get("op"):
            case "deposit" if len(accounts) == 1:
                return self._book(message, {accounts[0]: amount})
            case "withdraw" if len(accounts) == 1:
                return self._book(message, {accounts[0]: -amount})
            case "interest" if len(accounts) == 1:
                return self._book(message, {accounts[0]: self.balance(*accounts[0]) * amount // 10_000})
            case "transfer" if len(accounts) == 2:
                to = pairs_of(message.topic, (str(message.attributes.get("to")),))[0]
                if to in accounts:
                    source = accounts[0] if to == accounts[1] else accounts[1]
                    return self._book(message, {source: -amount, to: amount})
        return None

    def _book(self, message: Message, changes: dict[Pair, int]) -> Applied:
        """All of the changes, or none when one would leave less than nothing."""
        after = {account: self.balance(*account) + change for account, change in changes.items()}
        refused = any(cents < 0 for cents in after.values())
        if not refused:
            self._balances.update(after)
        shown = {f"{topic}|{key}": self.balance(topic, key) for topic, key in sorted(changes)}
        return Applied(message, "refused" if refused else "ok", shown)
