"""The tool that follows a publication or a repair through the files of a stack (`tests.walks`)."""

import pytest

from tests.compiled import reaches_into
from tests.walks import walk

pytestmark = reaches_into("resprout.order.log")  # calls of what is compiled are not seen


def test_a_walk_goes_from_the_publication_to_the_report_that_makes_its_last_receipt() -> None:
    steps = walk("resprout", "publication")
    events = [event for _, event, _ in steps]
    assert events[0] == "Publish" and events[-1] == "Levels" and events.count("Forward") == 2
    assert all(calls[0].file == "stacks/shell/shell.py" for _, _, calls in steps)


@pytest.mark.parametrize("stack", ["resprout", "ginger"])
def test_a_walk_through_a_repair_begins_where_somebody_notices(stack: str) -> None:
    steps = walk(stack, "repair")
    assert steps[0][1] == "Silent"
    files = {call.file for _, _, calls in steps for call in calls}
    assert "stacks/shell/peers.py" in files and any(file.startswith(f"stacks/{stack}/") for file in files)


@pytest.mark.parametrize(("what", "files", "calls"), [("publication", 30, 370), ("repair", 62, 2_100)])
def test_a_walk_is_shorter_than_it_was_before_the_floors_were_changed(what: str, files: int, calls: int) -> None:
    """Before: 31 and 65 files, 645 and 2,733 calls (docs/walks.md). Whatever is added to every step is added to every
    message; and a part that has nothing to do is not called to find that out."""
    made = [call for _, _, within in walk("resprout", what) for call in within]
    assert len({call.file for call in made}) <= files and len(made) <= calls
