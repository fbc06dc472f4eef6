"""Brokers inside the process."""

import asyncio

import pytest

import resprout
from resprout.core.errors import UsageError
from tests.net.stage import run


def test_one_broker_and_its_clients() -> None:
    async def scene() -> None:
        async with resprout.local() as network:
            async with network.connect(name="a") as a, network.connect() as b:
                inbox = await b.subscribe("t/#", where="n = 1")
                receipt = await a.publish("t/1", b"x", attributes={"n": 1})
                assert (await inbox.next()).publisher == "a"
                await receipt.delivered()
            async with resprout.connect(network.address) as c:
                assert c.name.startswith("client-")

    run(scene())


def test_a_tree_of_brokers_passes_messages_on() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=7, options={"faults_tolerated": 2}) as network:
            assert len(set(network.addresses)) == 7 and network.address == network.addresses[0]
            async with network.connect("a", broker=3) as a, network.connect("b", broker=6) as b:
                assert a.faults_tolerated == 2
                inbox = await b.subscribe("t")
                receipt = await a.publish("t", b"x")
                message = await inbox.next()
                assert (message.payload, message.hops) == (b"x", 4)
                await receipt.delivered()

    run(scene())


def test_nothing_is_left_afterwards() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=2) as network:
            addresses = network.addresses
        with pytest.raises(UsageError, match="the brokers are not running"):
            network.connect()
        for address in addresses:
            with pytest.raises(resprout.ConnectError, match="connection refused"):
                await resprout.connect(address)
        assert len(asyncio.all_tasks()) == 1

    run(scene())


def test_what_cannot_be_is_said_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="brokers=0: a whole number from 1 to 64"):
        resprout.local(brokers=0)
    with pytest.raises(UsageError, match="unknown stack 'x'"):
        resprout.local(stack="x")
    with pytest.raises(UsageError, match=r"option 'faults_tolerated'"):
        resprout.local(options={"faults_tolerated": "two"})


def test_a_broker_that_cannot_start_takes_the_others_with_it() -> None:
    async def scene() -> None:
        with pytest.raises(UsageError, match="cannot listen on"):
            async with resprout.local(host="203.0.113.1"):
                pass

    run(scene())
