"""Where a life stands on the scale from heard to replaced, and who moves it there."""

from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import CouncilOptions, Life
from resprout.overlay.view import MembershipView

LEASE_US = 1_000_000


def here() -> MembershipView:
    view = MembershipView("b0", 1, "", 1)
    view.found()
    return view


def test_words_connections_and_hosts_move_a_peer_along_the_scale_and_its_own_words_back() -> None:
    detector = LeaseDetector(here(), CouncilOptions(lease_us=LEASE_US))
    detector.met("b1", 1, 0)
    assert detector.liveness("b1", LEASE_US) is Liveness.HEARD
    assert detector.liveness("b1", 2 * LEASE_US) is Liveness.UNRESPONSIVE
    detector.lost("b1", refused=False)
    assert detector.liveness("b1", 2 * LEASE_US) is Liveness.SILENT
    detector.heard("b1", 2 * LEASE_US)
    assert detector.liveness("b1", 2 * LEASE_US) is Liveness.HEARD
    detector.lost("b1", refused=True)
    assert detector.liveness("b1", 2 * LEASE_US) is Liveness.ENDED


def test_the_operator_an_authority_and_a_repair_move_a_life_along_the_scale_but_not_its_next_life() -> None:
    view = here()
    life = Life("b1", 1)
    assert view.liveness(life) is Liveness.HEARD
    view.forgotten[life] = None
    assert view.liveness(life) is Liveness.FORGOTTEN
    view.mark_dead("b1", 1)
    assert view.liveness(life) is Liveness.DECLARED_DEAD
    view.mark_replaced(["b1"])
    assert view.liveness(life) is Liveness.REPLACED
    assert view.liveness(Life("b1", 2)) is Liveness.HEARD
