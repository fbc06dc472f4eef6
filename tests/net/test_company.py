"""A broker's way into the network: whoever answers will do."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.net import membership as company_module
from resprout.net.address import Address
from resprout.net.host import Host
from resprout.net.membership import FoundCompany, look_for_company
from resprout.net.sessions import Here
from tests.net.puppets import CODEC, Puppet, free_address, host_of
from tests.net.stage import LOOPBACK, run, somebody, until


async def listening(
    stack: AsyncExitStack,
    name: str,
    role: str = "broker",
    met: int = 0,
    of_stack: str = "ginger",
    max_payload: int = limits.PAYLOAD_BYTES,
) -> Address:
    here = Here(name, role, 1, stack=of_stack, max_payload=max_payload)
    host = Host(Puppet(), CODEC, here, lambda _: None, lambda _: None, latest_incarnation=lambda asker: met)
    stack.push_async_callback(host.close)
    return await host.listen(LOOPBACK)


def quiet(text: str) -> None:
    """What nobody needs to hear."""


async def find_company(
    parent: Address | None, contacts: Sequence[Address], me: str, say: Callable[[str], None]
) -> FoundCompany:
    """However long it takes."""
    company = await look_for_company(parent, contacts, me, "ginger", say, (), None)
    assert company is not None
    return company


def test_everybody_who_answers_is_company_and_the_parent_is_known_by_its_address() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            b0, b2, b3 = [await listening(stack, name, met=n) for n, name in enumerate(("b0", "b2", "b3"))]
            gone = await free_address()
            company = await find_company(b2, [b0, gone, b2, b3, b0], "b1", quiet)
        assert company.parent == "b2" and company.contacts == ("b0", "b3") and company.met == 2
        assert company.peers == {"b2": b2, "b0": b0, "b3": b3}

    run(scene())


def test_a_parent_that_is_gone_is_not_waited_for_when_a_contact_answers() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            b0 = await listening(stack, "b0")
            company = await find_company(await free_address(), [b0], "b1", quiet)
        assert (company.parent, company.contacts) == (None, ("b0",))

    run(scene())


def test_one_that_is_frozen_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company_module, "COMPANY_SECONDS", 0.1)

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def scene() -> None:
        async with AsyncExitStack() as stack, somebody(mute) as frozen:
            b0 = await listening(stack, "b0")
            host, port = frozen.split(":")
            company = await find_company(Address(host, int(port)), [b0], "b1", quiet)
            assert company.contacts == ("b0",)

    run(scene())


def test_somebody_is_waited_for_and_that_is_said_once() -> None:
    async def scene() -> None:
        said: list[str] = []
        one, other = await free_address(), await free_address()
        search = asyncio.create_task(find_company(None, [one, other], "b1", said.append))
        await until(lambda: said)
        assert said == [f"b1 waits for a broker to join: {one}: connection refused; {other}: connection refused"]
        host = host_of(Puppet(), "b0")
        await host.listen(other)
        assert (await search).contacts == ("b0",)
        assert len(said) == 1
        await host.close()

    run(scene())


def test_what_waiting_does_not_change_is_refused_unless_somebody_else_answers() -> None:
    async def scene() -> None:
        nowhere = Address("a..b", 1)
        with pytest.raises(UsageError, match=r"^contact a..b:1: the host is not a name"):
            await find_company(None, [nowhere], "b1", quiet)
        async with AsyncExitStack() as stack:
            b0 = await listening(stack, "b0")
            assert (await find_company(nowhere, [b0], "b1", quiet)).contacts == ("b0",)
            with pytest.raises(UsageError, match="the broker there is called b0, too"):
                await find_company(None, [b0], "b0", quiet)
            client = await listening(stack, "c0", "client")
            with pytest.raises(UsageError, match="c0 is a client; only a broker can be a parent"):
                await find_company(client, [b0], "b1", quiet)
            flood = await listening(stack, "b2", of_stack="flood")
            with pytest.raises(UsageError, match="b2 has the stack 'flood', b1 has 'ginger'; a network has one"):
                await find_company(flood, [b0], "b1", quiet)
            large = await listening(stack, "b4", max_payload=8 << 20)
            with pytest.raises(
                UsageError, match="b4 accepts payloads of 8388608 bytes, b1 of 1048576; set the same max"
            ):
                await find_company(large, [b0], "b1", quiet)
            older = await listening(stack, "b3", of_stack="")
            assert (await find_company(older, [], "b1", quiet)).parent == "b3", "it does not say, and may be right"

    run(scene())


def test_a_name_that_does_not_resolve_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            b0 = await listening(stack, "b0")
            loop = asyncio.get_running_loop()
            resolve, asked = loop.getaddrinfo, list[str]()

            async def getaddrinfo(host: str, *arguments: object, **options: object) -> object:
                if host != "b0.example":
                    return await resolve(host, *arguments, **options)  # type: ignore[arg-type]
                asked.append(host)
                if len(asked) < 3:
                    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
                return await resolve(b0.host, *arguments, **options)  # type: ignore[arg-type]

            monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
            said: list[str] = []
            found = await find_company(None, [Address("b0.example", b0.port)], "b1", said.append)
            assert found.contacts == ("b0",) and len(asked) == 3
            assert len(said) == 1 and "b0.example" in said[0] and "name resolution" in said[0]

    run(scene())


def test_a_broker_of_another_stack_at_the_address_of_a_former_member_is_somebody_else() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            member = await listening(stack, "b0", of_stack="flood")
            assert await look_for_company(None, (), "b1", "ginger", quiet, (member,), 0.0) is None

    run(scene())
