"""Options and names of stacks: what is wrong is said in one line."""

from typing import Any

import msgspec
import pytest

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.stacks.resprout import RESPROUT, ResproutOptions
from resprout.stacks.stack import DEFAULT, find_stack
from resprout_lab import SYSTEMS


def test_options_are_the_defaults_with_what_was_given() -> None:
    assert RESPROUT.parse_options({}) == ResproutOptions()
    assert RESPROUT.parse_options({"faults_tolerated": 2, "log_bytes": 4096}) == ResproutOptions(
        faults_tolerated=2, log_bytes=4096
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"fault_tolerated": 1},
            "option 'fault_tolerated': the stack 'resprout' has no such option; did you mean 'faults_tolerated'?",
        ),
        (
            {"zzz": 1},
            (
                "option 'zzz': the stack 'resprout' has no such option; "
                "it has faults_tolerated, total_degree, ack_delay_us, log_bytes, max_payload, subscriber_bytes, "
                "slow_consumer_us, spill_bytes, retained_bytes, retained_topics, root_ordered_after, message_id_us, "
                "heartbeat_us, lease_us, ghost_us, durable"
            ),
        ),
        ({"faults_tolerated": "1"}, "option 'faults_tolerated': expected `int`, got `str`"),
        ({"faults_tolerated": True}, "option 'faults_tolerated': expected `int`, got `bool`"),
        ({"faults_tolerated": 1.5}, "option 'faults_tolerated': expected `int`, got `float`"),
        ({"faults_tolerated": None}, "option 'faults_tolerated': expected `int`, got `null`"),
        ({"faults_tolerated": -1}, "option 'faults_tolerated': expected `int` >= 0"),
        ({"faults_tolerated": 9}, "option 'faults_tolerated': expected `int` <= 8"),
        ({"total_degree": 1}, "option 'total_degree': expected `int` >= 2"),
        ({"ack_delay_us": -1}, "option 'ack_delay_us': expected `int` >= 0"),
        ({"log_bytes": 4095}, "option 'log_bytes': expected `int` >= 4096"),
        ({"heartbeat_us": 999}, "option 'heartbeat_us': expected `int` >= 1000"),
        ({"lease_us": 0}, "option 'lease_us': expected `int` >= 4000"),
        ({"ghost_us": -1}, "option 'ghost_us': expected `int` >= 0"),
        ({"durable": 1}, "option 'durable': expected `bool | str`, got `int`"),
        (
            {"faults_tolerated": 1, "log_bytes": "x"},
            "option 'log_bytes': 'x' is no size: write bytes, or a number with KiB, MiB or GiB, such as 64MiB",
        ),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        RESPROUT.parse_options(given)
    assert str(caught.value) == complaint


def test_a_stack_is_found_by_its_name_or_refused_with_those_there_are() -> None:
    assert find_stack("resprout") is RESPROUT
    known = ", ".join((DEFAULT, *sorted(SYSTEMS)))
    with pytest.raises(UsageError, match=f"^unknown stack 'resprot'; there is {known}$"):
        find_stack("resprot")


def test_a_stack_says_which_guarantees_it_offers() -> None:
    for guarantee in Guarantee:
        RESPROUT.check_guarantee(guarantee)
    modest = msgspec.structs.replace(RESPROUT, name="modest", guarantees=(Guarantee.EVENTUAL, Guarantee.FIFO))
    with pytest.raises(UsageError, match=r"^the stack 'modest' does not offer 'total'; it offers eventual, fifo$"):
        modest.check_guarantee(Guarantee.TOTAL)


def test_messages_of_a_stack_have_tags_of_their_own() -> None:
    tags = [message.__struct_config__.tag for message in RESPROUT.messages]
    assert len(tags) == len(set(tags))
