"""The bank on the system that keeps every promise, and the traces it leaves."""

import functools
from typing import Any

from resprout.trace.schema import Row, texts, values
from tests.audit.model import Client, Sent, System


class Bank(System):
    """Every client is a teller and a replica; what it executes is in the trace."""

    INITIAL = 300

    def __init__(self, seed: int, clients: int = 3, claims: bool = True, loose: bool = False) -> None:
        """`loose`: some deposits to accounts that no transfer touches are eventual."""
        super().__init__(seed, clients, claims, faults=False)
        self.loose = loose
        self.books: dict[str, dict[tuple[str, str], int]] = {client.name: {} for client in self.clients}

    def run(self, steps: int) -> list[Row]:
        for client in self.clients:
            self.subscribe(client, "bank/#")
            self.confirm(client)
        for _ in range(steps):
            act, client = self.rng.random(), self.rng.choice(self.clients)
            if act < 0.3:
                self.publish(client)
            elif act < 0.5:
                self.enter_log(client)
            elif act < 0.8 or not self.sent:
                self.deliver(client)
            else:
                self.give_receipt(self.rng.choice([s for s in self.sent if s.receipt < 2][:6] or self.sent))
        self.settle()
        return self.rows

    def draw_publication(self) -> Row:
        rng = self.rng
        topic, account = rng.choice(("bank/fr", "bank/pt")), rng.choice(("1", "2"))
        op = rng.choice(("balance", "deposit", "withdraw", "transfer", "interest"))
        if self.loose and account == "2" and op == "transfer":
            op = "withdraw"
        attributes: dict[str, Any] = {"op": op}
        keys = [account]
        if op != "balance":
            attributes["amount"] = rng.randrange(1, 200)
        if op == "transfer":
            attributes["to"] = "3" if rng.random() < 0.5 else "bank/es#1"
            keys.append(attributes["to"])
        guarantee = {"balance": "eventual", "deposit": "causal"}.get(op, "total")
        if self.loose and account == "2" and op == "deposit":
            guarantee = "eventual"
        return Row(
            time_us=0, node="", kind="", topic=topic, guarantee=guarantee, keys=tuple(sorted(keys)),
            attributes=texts(attributes),
        )  # fmt: skip

    def delivered(self, client: Client, sent: Sent, row: Row) -> None:
        order = values(sent.row.attributes)
        book, amount = self.books[client.name], order.get("amount", 0)
        if order["op"] == "balance" or not isinstance(amount, int):
            return
        to = str(order.get("to", ""))
        payee = (to.split("#")[0], to.split("#")[1]) if "#" in to else (sent.row.topic or "", to)
        (account,) = sent.pairs - {payee}
        balance = book.get(account, self.INITIAL)
        gain = {"deposit": amount, "interest": balance * amount // 10_000}.get(str(order["op"]), -amount)
        outcome = "ok" if balance + gain >= 0 else "refused"
        touched = [account, payee] if order["op"] == "transfer" else [account]
        if outcome == "ok":
            book[account] = balance + gain
            if order["op"] == "transfer":
                book[payee] = book.get(payee, self.INITIAL) + amount
        shown = {f"{topic}|{key}": str(book.get((topic, key), self.INITIAL)) for topic, key in touched}
        self.record(
            client.name, "applied", publisher=row.publisher, incarnation=row.incarnation, stream=row.stream,
            seq=row.seq, position=row.position, attributes={"outcome": outcome, **shown},
        )  # fmt: skip


@functools.cache
def bank_trace(seed: int, steps: int = 250, claims: bool = True, loose: bool = False) -> list[Row]:
    return Bank(seed, claims=claims, loose=loose).run(steps)
