"""Whoever asks for a journal is answered by the broker that keeps it, however often that was lost in between."""

import asyncio
from pathlib import Path

import pytest

from resprout.core.errors import UsageError
from resprout.edge.requests import ReadRequest
from resprout.net.address import parse_address
from resprout.spark.journal import EventBrokers, brokers_of
from resprout.spark.options import AccessOptions, SourceError
from tests.net.stage import broker, run
from tests.net.test_events import keeper

LATEST = ReadRequest("#", position=-2)


def access(*servers: object, timeout_s: float = 20.0) -> AccessOptions:
    return AccessOptions(tuple(str(server) for server in servers), timeout_s=timeout_s)


def test_the_first_server_that_keeps_events_is_found_and_a_journal_wherever_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker("b0") as b0, keeper(tmp_path / "1") as one, keeper(tmp_path / "2") as two:
            brokers = EventBrokers(access(b0, one, two))
            first = await asyncio.to_thread(brokers.ask, LATEST)
            second = await asyncio.to_thread(EventBrokers(access(two, one)).ask, LATEST)
            assert first.journal != second.journal
            for journal in (second.journal, first.journal):
                asked = ReadRequest("#", journal=journal, position=0)
                assert (await asyncio.to_thread(brokers.ask, asked)).journal == journal

    run(scene())


def test_a_broker_that_is_away_is_waited_for_and_then_the_query_is_told_in_one_line(tmp_path: Path) -> None:
    async def scene() -> None:
        async with keeper(tmp_path) as tap:
            address = str(tap)
            brokers = EventBrokers(access(address))
            journal = (await asyncio.to_thread(brokers.ask, LATEST)).journal
        asked = ReadRequest("#", journal=journal, position=0)
        waiting = asyncio.create_task(asyncio.to_thread(brokers.ask, asked))
        await asyncio.sleep(0.2)
        async with keeper(tmp_path, listen=parse_address(address)):
            assert (await waiting).journal == journal
        short = EventBrokers(access(address, timeout_s=0.2))
        with pytest.raises(
            SourceError, match=rf"the journal {journal} was not found for 0\.2 s: {address}: "
        ) as raised:
            await asyncio.to_thread(short.ask, asked)
        assert "\n" not in str(raised.value)

    run(scene())


def test_tasks_of_one_process_share_their_connections() -> None:
    assert brokers_of(access("b0")) is brokers_of(access("b0")) is not brokers_of(access("b1"))


def test_a_wrong_folder_of_certificates_is_said(tmp_path: Path) -> None:
    brokers = EventBrokers(AccessOptions(("localhost:1",), tls=str(tmp_path / "nothing")))
    with pytest.raises(UsageError, match="no such folder"):
        brokers.ask(LATEST)
