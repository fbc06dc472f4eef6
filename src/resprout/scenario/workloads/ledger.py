"""The books of one replica of the bank: what each operation does to balances, in integer cents.

Deterministic: replicas that are given the same withdrawals, transfers and interests in the same order, with the same
deposits before each, hold the same balances. That is what `total` promises and the judge checks. Operations:

| op | attributes | effect |
|---|---|---|
| balance | | none |
| deposit | amount | credits the account |
| withdraw | amount | debits it; refused when it would fall below zero |
| transfer | amount, to | debits the other key, credits `to` (a `key`, or `topic#key` of another bank); refused alike |
| interest | amount | credits balance * amount // 10,000 |

A message that is none of these, or touches an account that this replica does not hold, changes nothing.
"""

from collections.abc import Sequence

from resprout.core.keys import Pair, pairs_of
from resprout.core.message import Message
from resprout.scenario.app import Applied


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
