"""What an operator says through a client, and what a program learns about publications that wait."""

import asyncio
import logging

import pytest

import resprout
from resprout.client.client import Client
from resprout.client.local import Local
from resprout.core.contract import Answer
from resprout.core.guarantee import ReceiptLevel
from resprout.edge.requests import ReceiptTurned, ReceiptWaits, Refused, SessionLost
from resprout.overlay.view import MembershipView
from resprout.stacks.resprout import ResproutBroker
from resprout.testing import Broker
from tests.net.stage import run, until
from tests.patience import PATIENCE_S

WHY = "waits for b3, which is not heard"


def view_of(network: Local) -> MembershipView:
    """What the root knows of the tree."""
    machine = network.brokers[0].books.machine
    assert isinstance(machine, ResproutBroker)
    return machine.life.view


# -- forget ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("b9",), "b9: not known to b0"),
        (("b1",), "b1 is alive here: stop it first, or forget it by force"),
        (("b2", "b1"), "b2 and b1 are alive here: stop them first, or forget them by force"),
        (("b0",), "b0 cannot forget itself"),
    ],
)
def test_a_refusal_is_an_error_with_its_reason(names: tuple[str, ...], reason: str) -> None:
    async def scene() -> None:
        async with resprout.local(brokers=3) as network, network.connect("c") as client:
            view = view_of(network)
            await until(lambda: len(view.neighbours) == 2)
            with pytest.raises(resprout.ForgetError, match=reason):
                await client.forget(*names)
            await (await client.publish("t", b"x")).safe()

    run(scene())


def test_names_that_no_broker_has_are_refused_before_anybody_is_asked() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            for names in ((), ("b 1",)):
                with pytest.raises(resprout.UsageError):
                    await client.forget(*names)

    run(scene())


def test_what_is_dead_already_may_be_forgotten() -> None:
    async def scene() -> None:
        async with resprout.local(brokers=2) as network, network.connect("c") as client:
            view = view_of(network)
            await until(lambda: view.neighbours == {"b1": True})
            await network.brokers[1].close()
            await until(lambda: not view.neighbours)
            await asyncio.gather(client.forget("b1"), client.forget("b1"))

    run(scene())


def test_a_request_ends_with_its_client_and_can_be_given_up() -> None:
    async def scene() -> None:
        async with resprout.local() as network:
            client = await network.connect("c")
            given_up = asyncio.create_task(client.forget("b1"))
            open_still = asyncio.create_task(client.forget("b1"))
            await asyncio.sleep(0)
            given_up.cancel()
            told(client, SessionLost("the end", over=True))
            with pytest.raises(resprout.ClosedError, match="the end"):
                await open_still
            assert given_up.cancelled() or (await asyncio.wait((given_up,)))[0]
            with pytest.raises(resprout.ClosedError):
                await client.forget("b1")
            await client.close()

    run(scene())


def test_the_blocking_client_forgets_as_well(resprout_broker: Broker) -> None:
    with (
        resprout_broker.connect("c") as client,
        pytest.raises(resprout.ForgetError, match="b7: not known to b0"),
    ):
        client.forget("b7", timeout=PATIENCE_S)


# -- waiting -----------------------------------------------------------------------------------------------------------


def told(client: Client, news: ReceiptWaits | ReceiptTurned | Refused | SessionLost) -> None:
    client.hear(Answer(news))


def test_a_receipt_says_what_it_waits_for_until_it_turns(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            one, two, three = [await client.publish("t", b"x") for _ in range(3)]
            other = await client.publish("t", b"x", guarantee="eventual")
            assert (two.waiting_for, repr(two)) == ("", "<receipt ordered:2 published>")
            told(client, ReceiptWaits("ordered", 2, WHY))
            assert [receipt.waiting_for for receipt in (one, two, three, other)] == ["", WHY, WHY, ""]
            assert repr(two) == f"<receipt ordered:2 published, {WHY}>"
            told(client, ReceiptWaits("ordered", 2, "waits for the root"))
            assert two.waiting_for == "waits for the root"
            told(client, ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 1, 1))
            assert two.waiting_for == "waits for the root"
            told(client, ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 2, 2))
            assert [receipt.waiting_for for receipt in (one, two, three)] == ["", "", ""]
            assert repr(two) == "<receipt ordered:2 accepted>"

    with caplog.at_level(logging.WARNING, logger="resprout"):
        run(scene())
    assert [record.getMessage() for record in caplog.records] == [f"publication ordered:2 {WHY}"], "once, not each time"


def test_each_publication_that_waits_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            for number in (1, 2):
                await client.publish("t", b"x")
                told(client, ReceiptWaits("ordered", number, WHY))

    with caplog.at_level(logging.WARNING, logger="resprout"):
        run(scene())
    assert [record.getMessage() for record in caplog.records] == [f"publication ordered:{n} {WHY}" for n in (1, 2)]


def test_what_is_refused_or_over_waits_no_longer() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("c") as client:
            one, two = [await client.publish("t", b"x") for _ in range(2)]
            told(client, ReceiptWaits("ordered", 1, WHY))
            told(client, Refused(None, "no", True, "ordered", 1, 1))
            assert (one.waiting_for, two.waiting_for) == ("", "")
            told(client, ReceiptWaits("ordered", 2, WHY))
            told(client, SessionLost("the end", over=True))
            assert two.waiting_for == ""

    run(scene())


def test_the_blocking_receipt_says_so_as_well(resprout_broker: Broker) -> None:
    with resprout_broker.connect("c") as client:
        receipt = client.publish("t", b"x")
        receipt.safe(timeout=PATIENCE_S)
        assert receipt.waiting_for == ""
