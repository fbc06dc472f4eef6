"""A member that answers questions of operators with more than escapes: huge numbers, nesting, endless data.

Each of these ended `status` and the like with a traceback, also when only one of many brokers had answered like that.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from resprout.cli import status as status_module
from resprout.cli.main import run
from resprout.net import survey as survey_module
from resprout.net.accounts import PassageAnswer
from resprout.net.sessions import AccountTold, AskAccount, Here, Who
from tests.cli.hostile_broker import account_of, hostile_broker

STATUS, TOP = ("status",), ("top", "--count", "1")
WHO, TRACE = ("who", "bank/1"), ("trace", "teller.1/ordered:1")
HUGE = 10**400
DEEP = b"[" * 1_000_000


def account(name: str, at: str, **change: Any) -> dict[str, Any]:
    return {**msgspec.to_builtins(account_of(at)), "name": name, "members": [], "notices": [], **change}


def liar(**change: Any) -> Callable[[Any, str], Any]:
    """A broker whose account is changed like that."""

    def answer(frame: Any, address: str) -> Any:
        match frame:
            case Who():
                return Here("b0", "broker", 1, stack="resprout")
            case AskAccount(what="account"):
                return AccountTold("b0", json.dumps(account("b0", address, **change)).encode())
            case AskAccount(what="readers"):
                told = {"broker": "b0", "topic": "t", "clients": ["c"], "conditional": [], **change}
                return AccountTold("b0", json.dumps(told).encode())
            case AskAccount():
                return AccountTold("b0", json.dumps({"broker": "b0", "found": True, **change}).encode())
        return None

    return answer


def says(answer: bytes) -> Callable[[Any, str], Any]:
    return lambda frame, address: AccountTold("b0", answer) if isinstance(frame, AskAccount) else None


CHAIN = [{"name": f"m{n}", "dead": True, "parent": f"m{n - 1}" if n else "b0"} for n in range(1_999)]
RATES = {"publications": 1e308, "deliveries": 1e308, "carried": 1e308, "passed_on": 1e308}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        pytest.param(STATUS, says(b'{"unknown":' + DEEP), id="nesting"),
        pytest.param(STATUS, says(b'{"name":"\xff"}'), id="no UTF-8"),
        pytest.param(STATUS, liar(queue_bytes=HUGE), id="a huge size"),
        pytest.param(TOP, liar(log_bytes=HUGE), id="a huge size in top"),
        pytest.param(STATUS, liar(clients_count=9 * 10**4_299), id="a count with too many digits"),
        pytest.param(STATUS, liar(rates=RATES), id="huge rates"),
        pytest.param(STATUS, liar(members=CHAIN), id="a chain of 2,000 brokers"),
        pytest.param(WHO, liar(address=":::x"), id="an address that is none"),
        pytest.param(TRACE, liar(time=1e300), id="a time after the end of time"),
        pytest.param(TRACE, liar(time=1.0, given=HUGE), id="a huge number of readers"),
    ],
)
def test_no_answer_of_a_broker_ends_a_command_with_a_traceback(
    words: tuple[str, ...], answer: Callable[[Any, str], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with hostile_broker(answer) as address:
        status = run([*words, "--server", address])
    out, err = capfd.readouterr()
    assert status in (0, 1, 3) and "Traceback" not in out + err
    assert out or err.count("\n") == 1, "one line says why"


def test_a_member_whose_answer_cannot_be_read_is_missing_and_the_others_are_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with hostile_broker(says(b'{"unknown":' + DEEP)) as bad:
        members = [{"name": "b1", "address": bad, "parent": "b0"}]
        with hostile_broker(liar(members=members)) as address:
            assert run(["status", "--server", address]) == 1
    out, _ = capfd.readouterr()
    assert "b0  127.0.0.1" in out and "└─ b1  no answer" in out and "cannot be read" in out


def test_subscriptions_name_the_broker_that_did_not_answer_also_beside_json(capfd: pytest.CaptureFixture[str]) -> None:
    with hostile_broker(says(b'{"unknown":' + DEEP)) as bad:
        members = [{"name": "b1", "address": bad, "parent": "b0"}]
        with hostile_broker(liar(members=members)) as address:
            assert run(["subscriptions", "--json", "--server", address]) == 1
    out, err = capfd.readouterr()
    assert len(json.loads(out)) == 1 and err.startswith("b1 does not answer: ") and err.count("\n") == 1


LISTS = {
    "recent": [{"time": float(at), "kind": "note", "detail": f"d{at}"} for at in range(300)],
    "departed": [{"name": f"d{at}", "time": 1.0} for at in range(300)],
    "history": [[at, 1.0, 1.0, 1] for at in range(300)],
    "notices": [f"n{at}" for at in range(5_000)],
    "repairs": [{"dead": [f"b{at}"], "by": None} for at in range(5_000)],
}


@pytest.mark.parametrize("name", [*LISTS, "refusals"])
def test_lists_in_an_account_have_bounds(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The live page looked for each of 40,000 events among all others, and built a row for each of 150,000 reasons: it
    stood still for whoever looked at any broker of the network."""
    counters = msgspec.to_builtins(account_of("127.0.0.1:1"))["counters"]
    refusals = {f"reason {at}": 1 for at in range(300)}
    change = {name: LISTS[name]} if name in LISTS else {"counters": {**counters, "refusals": refusals}}
    with hostile_broker(liar(**change)) as address:
        assert run(["status", "--server", address]) != 0
    _, err = capfd.readouterr()
    assert "cannot be read" in err and "length <=" in err


def test_brokers_that_a_member_makes_up_are_asked_until_their_answers_are_too_long(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member named 2,000 brokers at its own address, each of which answered with 4 MiB."""
    monkeypatch.setattr(survey_module, "SURVEY_BYTES", 20_000)
    asked: list[str] = []

    def answer(frame: Any, address: str) -> Any:
        if not isinstance(frame, AskAccount):
            return None
        asked.append(frame.what)
        name = "b0" if len(asked) == 1 else f"m{len(asked)}"
        made_up = [{"name": f"m{at}", "address": address} for at in range(300)] if len(asked) == 1 else []
        told = account(name, address, members=made_up, notices=["x" * 10_000])
        return AccountTold(name, json.dumps(told).encode())

    with hostile_broker(answer) as address:
        assert run(["status", "--server", address]) == 1
    out, _ = capfd.readouterr()
    assert len(asked) <= 1 + 2 + survey_module.AT_ONCE
    assert out.count("it was not asked: earlier answers were too slow or too long") >= 300 - survey_module.AT_ONCE - 2


def test_news_of_a_broker_has_a_bounded_number_of_lines(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_module, "NEWS_MAX", 10)
    with hostile_broker(liar(notices=[f"n{number}" for number in range(100)], repairs=[])) as address:
        assert run(["status", "--server", address]) == 1
    out, _ = capfd.readouterr()
    assert out.count("b0: n") <= 10 and "more lines, which --json shows" in out


def test_accounts_of_honest_brokers_are_within_the_bounds() -> None:
    """What an account can hold at most: a life is a number of up to 62 bits, sizes have fewer."""
    passage = PassageAnswer("b0", True, given=1 << 62, time=4_102_444_800.0)
    assert msgspec.json.decode(msgspec.json.encode(passage), type=PassageAnswer) == passage
