"""Conversations: a delivery provokes answers on other topics, which makes deep causal chains across topics and clients.

A message says how many answers to answers are left (attribute `depth`); at 0 nobody answers, and no client answers more
than `answers_max` times, so every run ends. Nobody answers itself. `chain` names the first message of a conversation,
for people who read traces.
"""

import heapq
import random
from collections.abc import Sequence

from resprout.core.message import Message
from resprout.core.names import AttributeValue
from resprout.edge.requests import PublishRequest
from resprout.scenario.app import AppWish, WakeAt
from resprout.scenario.model import ChatterOptions, WorkloadSpec
from resprout.scenario.workloads.pace import PacedApp


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
