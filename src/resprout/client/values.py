"""Last values: the part of `Client` that asks brokers for them."""

import asyncio
from typing import Any, Final

from resprout.client.errors import ClosedError, KvError
from resprout.client.kv import WRITES_AT_ONCE
from resprout.client.partitions import PartitionClient
from resprout.client.past_events import Answered
from resprout.core.contract import Request
from resprout.edge.client.machine import ClientMachine
from resprout.edge.requests import OutcomeAnswered, OutcomeRequest, Refused, ValuesAnswered, ValuesRequest
from resprout.net.host import Host

ValueAnswered = Answered | ValuesAnswered | OutcomeAnswered
_ANSWERS: Final = (ValuesAnswered, OutcomeAnswered)


class ValueClient(PartitionClient):
    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        super().__init__(machine, host, copies)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        """Unanswered questions about last values, by token."""
        self.kv_writes = asyncio.Semaphore(WRITES_AT_ONCE)
        """Held by each write to a bucket that is under way."""

    async def ask_values(self, request: ValuesRequest | OutcomeRequest) -> Any:
        """Ask the broker about last values, and return its answer. Another broker is asked if that one is lost."""
        self._check_open()
        token = next(self._tokens)
        answered: asyncio.Future[Any] = self._loop.create_future()
        self._asked[token] = answered
        self._host.handle(Request(request, token))
        try:
            return await answered
        finally:
            self._asked.pop(token, None)

    def _answered(self, token: int, news: ValueAnswered) -> None:
        asked = self._asked.get(token)
        if asked is None:
            if not isinstance(news, _ANSWERS):  # those come for calls that were cancelled
                super()._answered(token, news)
        elif not asked.done():
            if isinstance(news, Refused):
                asked.set_exception(KvError(news.reason))
            else:
                asked.set_result(news)

    def _answer_nothing(self, reason: str) -> None:
        super()._answer_nothing(reason)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ClosedError(reason))
