"""A site and contacts reach a broker that runs in a process of its own, whatever package its stack is from."""

import asyncio
from pathlib import Path

import pytest

from resprout.net.orders import SaidNote
from resprout.net.process import BrokerProcess
from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, Scenario
from tests.stacks.strange_package import SEATS, install


def test_a_site_and_contacts_reach_a_broker_in_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "strange_seats", SEATS, seats="strange_seats:STACK")
    brokers = (
        BrokerSpec("b0", site="s0"),
        BrokerSpec("b1", "b0", site="s1"),
        BrokerSpec("b2", site="s1", contacts=("b1",)),
    )
    told: dict[str, str | None] = {}

    def hear(process: BrokerProcess, note: SaidNote) -> None:
        if note.kind == "seat":
            told[process.name] = note.columns.get("detail")

    async def play() -> None:
        async with LocalTree(Scenario("seats", brokers, stack="seats"), on_note=hear):
            while len(told) < len(brokers):
                await asyncio.sleep(0.02)

    asyncio.run(play())
    assert told == {"b0": "b0 of s0 knows ", "b1": "b1 of s1 knows ", "b2": "b2 of s1 knows b1"}
