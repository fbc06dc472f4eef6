"""Honest nodes keep the rules of the wire: what brokers and clients say in virtual time passes a real decoder.

The simulator encodes nothing, so a number or a name that the decoder refuses would be found by processes only:
brokers that drain said a probe with a number above 2^53, and were suspected.
"""

from typing import Any

import pytest

from resprout.links.frames import FRAMES, Data, Express, Part
from resprout.replicas.messages import Accept, SlotEntry
from resprout.scenario.load import load_scenario
from resprout.sim.nodes import NodeLoad
from resprout.sim.run import run_scenario
from resprout.stacks.stack import find_stack
from resprout.wire.codec import Codec


@pytest.mark.parametrize("name", ["crash-root", "durable", "rolling", "recover", "blackout"])
def test_what_is_said_passes_the_decoder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"Hello", "Attend", "Publish", "Delivery", "Forward"} <= said_through_the_codec(name, monkeypatch)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("sites", {"SiteMember", "SiteLed", "SiteCarries", "Accept"}),
        ("scribe", {"Accept", "SlotEntry True"}),
    ],
)  # fmt: skip
def test_what_other_stacks_say_passes_the_decoder(name: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The site above the root site has no name, and members of a log are lives (`NAME/INCARNATION`)."""
    assert kinds <= said_through_the_codec(name, monkeypatch)


def said_through_the_codec(name: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The kinds of frames, messages and rows that were said."""
    scenario = load_scenario(name)
    codec = Codec(FRAMES, find_stack(scenario.stack).messages)
    said: set[str] = set()
    sent = NodeLoad.sent

    def through_the_codec(self: NodeLoad, frame: Any) -> None:
        messages = getattr(frame, "messages", ())
        kinds = {type(message).__name__ for message in messages}
        kinds |= {_kind_of_row(row) for message in messages for row in getattr(message, "rows", ())}
        kinds |= {_kind_of_entry(one) for message in messages if type(message) is Accept for one in message.entries}
        if type(frame) is not Data and type(frame) is not Express:
            kinds.add(type(frame).__name__)
        if (
            type(frame) is not Part and not kinds <= said
        ):  # one frame of each kind at least; all of them would take minutes
            said.update(kinds)
            codec.decoder().decode(codec.encoder().encode(frame))
        sent(self, frame)

    monkeypatch.setattr(NodeLoad, "sent", through_the_codec)
    run_scenario(scenario)
    return said


def _kind_of_row(row: Any) -> str:
    """Rows of parcels are decoded by kind, and listeners are of two kinds: clients and durable subscriptions."""
    return f"{type(row).__name__} {getattr(row, 'listener', '')[:1] == '='}"


def _kind_of_entry(entry: SlotEntry) -> str:
    """Of a log: commands and configurations."""
    return f"SlotEntry {entry.is_configuration}"
