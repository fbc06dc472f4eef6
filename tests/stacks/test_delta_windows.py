"""The corrections D8 and D9: windows of publications, and how much of the way a copy remembers. The others are in
`test_delta_corrections`."""

import pytest

from resprout_lab.delta import forwarding
from resprout_lab.delta.messages import (
    RoutedPublication,
    RoutesConfirmed,
)  # fmt: skip
from resprout_lab.delta.publishing import OwnPublications
from tests.stacks.delta_net import DeltaNet, reading

# -- D8 ----------------------------------------------------------------------------------------------------------------


def under_way() -> int:
    net = reading("b0", "b1")
    net.stop("b1", "b0")
    for _ in range(10):
        net.publish("p")
    net.settle()
    return len(net.between("b0", "b1", RoutedPublication))


def test_delta_d8_a_publisher_has_a_window_of_unconfirmed_publications() -> None:
    assert under_way() == 10


def test_delta_d8_off_each_waits_for_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    init = OwnPublications.__init__
    monkeypatch.setattr(OwnPublications, "__init__", lambda self, window, *more: init(self, 1, *more))
    assert under_way() == 1


def test_delta_d8_confirmations_are_cumulative() -> None:
    net = reading("b0", "b1", "b2")
    net.stop("b2", "b1")
    for _ in range(5):
        net.publish("p")
    net.settle()
    before = len(net.between("b1", "b0", RoutesConfirmed))
    net.crash("b2")
    net.settle()
    assert len(net.between("b1", "b0", RoutesConfirmed)) == before + 1 and net.safe("p") == 5


# -- D9 ----------------------------------------------------------------------------------------------------------------


def sent_twice() -> DeltaNet:
    """Within the bound: one broker dies before it has confirmed what it has passed on."""
    net = reading("b0", "b1", "b2", "b3", "b4")
    net.stop("b3", "b2")
    net.publish("p")
    net.settle()
    net.crash("b3")
    net.stopped.clear()
    net.settle()
    return net


def test_delta_d9_with_delta_plus_one_entries_a_copy_that_comes_around_a_dead_broker_is_known() -> None:
    net = sent_twice()
    assert len(net.between("b2", "b4", RoutedPublication)) == 1 and net.read("cb4") == [("p", 1)]


def test_delta_d9_off_with_delta_entries_it_is_shown_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "visited_length", lambda delta: delta)
    assert sent_twice().read("cb4") == [("p", 1), ("p", 1)]


def beyond_the_bound() -> DeltaNet:
    """Delta is one, and two are not operational at once: `b2` recovers when `b1` dies. The first copy has passed over
    `b2`, the second one passes over `b1`."""
    net = reading("x", "y", "b1", "b2", "n")
    net.crash("b2")
    net.settle()
    net.stop("b1", "y")
    net.publish("p")
    net.settle()
    assert net.read("cn") == [("p", 1)]
    net.stop("n", "b2")
    net.start("b2")
    net.settle()
    net.crash("b1")
    net.stopped.clear()
    net.settle()
    return net


def test_delta_d9_beyond_the_bound_delta_plus_one_entries_are_too_few() -> None:
    assert beyond_the_bound().read("cn") == [("p", 1), ("p", 1)]


def test_delta_d9_the_two_f_plus_one_entries_of_a_bound_per_path_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "visited_length", lambda delta: 2 * delta + 1)
    assert beyond_the_bound().read("cn") == [("p", 1)]
