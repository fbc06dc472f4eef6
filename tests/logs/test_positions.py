"""Positions of readers in the state of a log: they rise, they are few, and a forced change acts once."""

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Effect, ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.logs.messages import LogSettle, LogSettled
from resprout.logs.positions import ASK, FORGET, POSITIONS_MAX, PositionCommand, Positions, position_command
from resprout.logs.records import LogCommand, bundle_command, to_bytes
from resprout.logs.settling import PositionSettling
from resprout.logs.state import LogState

END = 100


def change(positions: Positions, offset: int, version: int = 0, owner: str = "", name: str = "billing") -> str:
    """Apply a command; it is forced if it has an owner. Return why it has no effect."""
    command = PositionCommand(name, offset, version, bool(owner), owner, 7)
    reason = positions.refusal(command, END)
    positions.apply(command, END)
    return reason


def at(positions: Positions, name: str = "billing") -> tuple[int, int]:
    stored = positions.by_name[name]
    return stored.offset, stored.version


def test_a_position_rises_and_never_goes_back_unless_forced() -> None:
    positions = Positions()
    change(positions, 10)
    change(positions, 5)
    assert at(positions) == (10, 1)
    change(positions, 12)
    assert at(positions) == (12, 1)
    assert not change(positions, 3, 1, "me")
    assert at(positions) == (3, 2)


def test_a_forced_change_that_comes_twice_acts_once() -> None:
    positions = Positions()
    change(positions, 10)
    change(positions, 3, 1, "me")
    change(positions, 20)
    assert "has version 2, and not 1" in change(positions, 3, 1, "me")
    assert at(positions) == (20, 2)


def test_only_one_of_two_owners_gets_a_position_and_the_earlier_one_changes_nothing_any_more() -> None:
    positions = Positions()
    change(positions, 10, 0, "one")
    again = PositionCommand("billing", 10, 0, True, "two", 7)
    assert positions.refusal(again, END) and not positions.is_applied(again)
    change(positions, 10, 1, "two")
    assert "has version 2, and not 1" in change(positions, 30, 1)
    assert not change(positions, 20, 2)
    assert at(positions) == (20, 2)


def test_positions_are_within_the_log_and_bounded_in_number() -> None:
    positions = Positions()
    assert "ends at offset 100" in change(positions, 101)
    assert not positions.by_name
    for number in range(POSITIONS_MAX):
        change(positions, 1, name=f"r{number}")
    assert f"has {POSITIONS_MAX} positions" in change(positions, 1)
    change(positions, FORGET, name="r7")
    assert not change(positions, 1) and len(positions.by_name) == POSITIONS_MAX


def grown() -> LogState:
    state = LogState()
    state.apply(to_bytes(LogCommand("f", 1, 5, -1, begins=True)))
    content = pack_payloads([b"x"] * 50)
    bundle = Bundle("p", 1, 1, 50, 0, "bank/a", (), Guarantee.FIFO, b"", content)
    state.apply(bundle_command("f", 2, 10, -1, bundle))
    return state


def test_positions_are_a_part_of_snapshots() -> None:
    state, copy = grown(), LogState()
    assert state.apply(position_command(PositionCommand("billing", 20, 0, False, "", 9))) == []
    copy.load(state.dump())
    assert at(copy.positions) == (20, 1) and copy.dump() == state.dump()


def test_what_is_no_command_of_a_position_changes_nothing() -> None:
    state = grown()
    before = state.dump()
    long = position_command(PositionCommand("n" * 65, 20, 0, False, "", 9))
    for data in (b"P", b"P\xc1", b"Pabc", long):
        assert state.apply(data) == [] and state.dump() == before


class Leader:
    """A leader whose commands are applied when the test says so."""

    def __init__(self) -> None:
        self.state = grown()
        self.settling = PositionSettling(self.state, self)
        self.proposed: list[bytes] = []
        self.said: list[tuple[str, LogSettled]] = []

    def write(self, effect: Effect) -> None:
        raise AssertionError(effect)

    do = write

    def token(self) -> int:
        raise AssertionError

    def send(self, broker: str, message: ProtocolMessage) -> None:
        assert isinstance(message, LogSettled)
        self.said.append((broker, message))

    def ask(self, id: int, offset: int, version: int = 0, owner: str = "") -> None:
        message = LogSettle("bank", id, "billing", offset, version, bool(owner), owner)
        self.settling.hear("b7", message, 9, self.propose)

    def propose(self, command: bytes) -> bool:
        self.proposed.append(command)
        return True

    def decide(self) -> None:
        for command in self.proposed:
            self.state.apply(command)
        self.proposed.clear()
        self.settling.look(self.state.take_decided_positions())


def test_the_leader_answers_when_a_command_is_applied() -> None:
    leader = Leader()
    leader.ask(1, 20)
    assert not leader.said
    leader.decide()
    assert leader.said == [("b7", LogSettled("bank", 1, 20, 1, 50, "", True))]
    leader.ask(2, 10)
    leader.ask(3, ASK)
    assert not leader.proposed
    assert [told.offset for _, told in leader.said] == [20, 20, 20]
    leader.ask(4, 51)
    assert "ends at offset 50" in leader.said[-1][1].reason
    leader.ask(5, FORGET)
    leader.decide()
    assert leader.said[-1][1].offset == -1 and not leader.said[-1][1].reason


def test_two_who_take_over_at_once_do_not_both_get_it() -> None:
    leader = Leader()
    leader.ask(1, 20, 0, "one")
    leader.ask(2, 20, 0, "two")
    leader.decide()
    assert [(told.id, bool(told.reason)) for _, told in leader.said] == [(1, False), (2, True)]
    leader.ask(1, 20, 0, "one")  # its answer was lost
    assert not leader.proposed and not leader.said[-1][1].reason


def test_a_leader_that_is_replaced_forgets_who_waits() -> None:
    leader = Leader()
    leader.ask(1, 20)
    leader.settling.forget()
    leader.decide()
    assert not leader.said


def test_a_position_belongs_to_the_first_identity_that_adopts_it_and_survives_snapshots() -> None:
    state = grown()

    def settle(offset: int, identity: str, **may: bool) -> str:
        command = PositionCommand("billing", offset, 0, False, "", 7, identity, **{"shares": False, **may})
        reason = state.positions.refusal(command, END)
        state.apply(position_command(command))
        return reason

    assert not settle(1, "")
    assert not settle(2, "owner", adopts=True)
    copy = LogState()
    copy.load(state.dump())
    state = copy
    assert "belongs to another identity" in settle(3, "thief", adopts=True)
    assert "belongs to another identity" in settle(3, "")
    assert not settle(4, "auditor", shares=True, adopts=True)
    assert not settle(5, "owner")
    assert (at(state.positions), state.positions.by_name["billing"].identity) == ((5, 1), "owner")
    assert "belongs to another identity" in settle(FORGET, "thief")
    assert not settle(FORGET, "owner")
    assert "keep the name" in settle(1, "thief", creates=False)
    assert not state.positions.by_name


def test_a_leader_looks_only_at_the_changes_of_positions_that_were_decided() -> None:
    leader = Leader()
    looked: list[str] = []
    positions = leader.state.positions
    refusal = positions.refusal

    def counted(command: PositionCommand, end: int) -> str:
        looked.append(command.name)
        return refusal(command, end)

    positions.refusal = counted  # type: ignore[method-assign]
    for number in range(200):
        leader.settling.hear("b7", LogSettle("bank", number, f"r{number}", 5, 0, False, ""), 9, leader.propose)
    leader.decide()
    assert len(leader.said) == 200
    assert len(looked) <= 4 * 200, "and not 200 for each"
