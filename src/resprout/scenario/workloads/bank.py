"""A bank that is replicated by publishing its operations: each topic is a bank, each key an account.

The guarantee of an operation follows from what it needs: reading a balance is `eventual`; deposits commute, so `causal`
(or `fifo`) is enough; what can be refused, or depends on the balance (withdraw, transfer, interest), is `total`. `mix`
chooses the class. Every client of the workload is a teller, and a replica of each bank that it receives completely.

A replica must have seen everything: one whose subscriptions were confirmed only after the first bank opened, and one
that lost its memory in a crash, keeps no books and only works as a teller.
"""

import random
from collections.abc import Mapping, Sequence

from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.core.names import AttributeValue
from resprout.edge.requests import PublishRequest
from resprout.scenario.app import AppWish
from resprout.scenario.model import WorkloadSpec
from resprout.scenario.workload_options import BankOptions
from resprout.scenario.workloads.ledger import BankLedger
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
