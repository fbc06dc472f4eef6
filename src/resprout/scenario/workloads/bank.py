"""A bank that is replicated by publishing its operations: each topic is a bank, each key an account.

The guarantee of an operation follows from what it needs: reading a balance is `eventual`; deposits commute, so `causal`
(or `fifo`) is enough; what can be refused, or depends on the balance (withdraw, transfer, interest), is `total`. `mix`
chooses the class. Every client of the workload is a teller, and a replica of each bank that it receives completely.

A replica must have seen everything: one whose subscriptions were confirmed only after the first bank opened, and one
that lost its memory in a crash, keeps no books and only works as a teller.

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

import random
from collections.abc import Mapping, Sequence

from resprout.core.bundle import Pair, pairs_of
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.core.names import AttributeValue
from resprout.edge.requests import PublishRequest
from resprout.scenario.app import Applied, AppWish
from resprout.scenario.model import BankOptions, WorkloadSpec
from resprout.scenario.workloads.pace import PacedApp


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
