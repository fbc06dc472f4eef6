"""The application of one client: its subscriptions first, then its workloads, each in its own right.

Workloads begin when every subscription of the client is confirmed (or refused): what it publishes afterwards it is owed
itself, so "nothing lost" has teeth. Other clients may have begun earlier; where that matters a workload has a `start`.
"""

from collections.abc import Sequence

from resprout.core.message import Message
from resprout.edge.requests import ClientNews, Refused, SubscribeRequest, SubscriptionConfirmed
from resprout.filters.predicate import topic_matches
from resprout.scenario.app import App, AppWish
from resprout.scenario.model import (
    BankOptions,
    ChatterOptions,
    ClientSpec,
    RandomOptions,
    Scenario,
    SubscriptionSpec,
    random_for,
)
from resprout.scenario.source import ScenarioError
from resprout.scenario.workloads.bank import BankApp
from resprout.scenario.workloads.chatter import ChatterApp
from resprout.scenario.workloads.random import RandomApp


class ClientApp:
    """Subscribes, waits, then lets the workloads run side by side."""

    def __init__(self, subscriptions: Sequence[SubscriptionSpec], workloads: Sequence[App]) -> None:
        self._requests = [SubscribeRequest(s.filter, s.where) for s in subscriptions]
        self._awaited = {(s.filter, s.where): None for s in subscriptions}
        self._workloads = workloads
        self._begun = False

    @property
    def done(self) -> bool:
        return self._begun and all(workload.done for workload in self._workloads)

    def start(self, now_us: int) -> Sequence[AppWish]:
        return self._requests or self._begin(now_us)

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if self._begun:
            return [wish for workload in self._workloads for wish in workload.told(news, now_us)]
        if isinstance(news, SubscriptionConfirmed):
            self._awaited.pop((news.filter, news.where), None)
        elif isinstance(news, Refused) and isinstance(news.request, SubscribeRequest):
            self._awaited.pop((news.request.filter, news.request.where), None)
        return [] if self._awaited else self._begin(now_us)

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        if not self._begun:
            return []
        return [wish for workload in self._workloads for wish in workload.delivered(message, now_us)]

    def woke(self, now_us: int) -> Sequence[AppWish]:
        if not self._begun:
            return []
        return [wish for workload in self._workloads for wish in workload.woke(now_us)]

    def _begin(self, now_us: int) -> list[AppWish]:
        self._begun = True
        return [wish for workload in self._workloads for wish in workload.start(now_us)]


class AppMaker:
    """Makes the applications of a scenario's clients; knows what they must know about each other."""

    def __init__(self, scenario: Scenario) -> None:
        self._seed = scenario.seed
        self._clients = {client.name: client for client in scenario.clients}
        self._employed: dict[str, list[int]] = {}
        for number, workload in enumerate(scenario.workloads):
            for name in workload.clients:
                self._employed.setdefault(name, []).append(number)
        self._workloads = scenario.workloads
        self._banks = [workload for workload in scenario.workloads if workload.kind == "bank"]
        self._opening_us = min((bank.start_us for bank in self._banks), default=0)
        self._partners = self._find_partners()

    def make(self, client: str, life: int = 0) -> App:
        """The application of this client in its first life (0) or after so many recoveries."""
        if client not in self._clients:
            raise ScenarioError(f"there is no client {client!r}")
        spec = self._clients[client]
        workloads = [self._workload(number, spec, life) for number in self._employed.get(client, ())]
        return ClientApp(spec.subscriptions, workloads)

    def _workload(self, number: int, client: ClientSpec, life: int) -> App:
        spec = self._workloads[number]
        rng = random_for(self._seed, "workload", number, client.name, life)
        match spec.options:
            case BankOptions():
                held = held_topics(client, self._bank_topics()) if life == 0 else ()
                return BankApp(spec, spec.options, rng, held, self._partners, self._opening_us)
            case RandomOptions():
                return RandomApp(spec, spec.options, rng, client)
            case ChatterOptions():
                return ChatterApp(spec, spec.options, rng, client.name)

    def _bank_topics(self) -> list[str]:
        return list(dict.fromkeys(topic for bank in self._banks for topic in bank.topics))

    def _find_partners(self) -> dict[str, tuple[str, ...]]:
        """Banks between which money can be sent: those with the same replicas, since the outcome needs both ledgers."""
        tellers = dict.fromkeys(name for bank in self._banks for name in bank.clients)
        topics = self._bank_topics()
        replicas: dict[str, list[str]] = {topic: [] for topic in topics}
        for name in tellers:
            for topic in held_topics(self._clients[name], topics):
                replicas[topic].append(name)
        return {topic: tuple(t for t in topics if t != topic and replicas[t] == replicas[topic]) for topic in topics}


def held_topics(client: ClientSpec, topics: Sequence[str]) -> tuple[str, ...]:
    """Of these, the ones whose every publication the client receives: a content filter may hide some."""
    whole = [s.filter for s in client.subscriptions if s.where is None]
    return tuple(topic for topic in topics if any(topic_matches(filter_, topic) for filter_ in whole))
