"""The roster of a network of sites, in the configuration of a broker and on its command line."""

from pathlib import Path
from random import Random

import pytest

from resprout.cli.settings import read_settings
from resprout.core.errors import UsageError
from resprout.scenario.read_nodes import parse_roster_entry
from resprout.stacks.stack import BrokerSeat, RosterEntry
from resprout_lab.sites import SITES
from resprout_lab.sites.membership import read_config
from resprout_lab.sites.options import SitesOptions

ROSTER = (
    RosterEntry("s0a", "s0", None, "localhost:7450"),
    RosterEntry("s1a", "s1", "s0a", "localhost:7451"),
    RosterEntry("s1b", "s1", "s1a"),
)


def test_the_file_and_the_command_line_say_the_same(tmp_path: Path) -> None:
    tables = [f'[[roster]]\nname = "{one.name}"\nsite = "{one.site}"\n' for one in ROSTER]
    tables[0] += 'address = "localhost:7450"\n'
    tables[1] += 'parent = "s0a"\naddress = "localhost:7451"\n'
    tables[2] += 'parent = "s1a"\n'
    (tmp_path / "broker.toml").write_text('name = "s1b"\nstack = "sites"\n' + "".join(tables))
    in_file = read_settings(tmp_path / "broker.toml", {}, (), ())
    given = read_settings(None, {"name": "s1b", "stack": "sites"}, (), (), roster=[one.text() for one in ROSTER])
    assert in_file.roster == given.roster == ROSTER


@pytest.mark.parametrize(
    ("stack", "text", "reason"),
    [
        ("sites", "s0a,place=s0", "unknown key 'place'"),
        ("sites", "s/a", "is refused"),
        ("sites", "s0a,site=s 0", "site 's 0' is refused"),
        ("sites", "s0a,address=nowhere:port", "port"),
        ("resprout", "s0a,site=s0", "brokers of the stack 'resprout' form no sites"),
    ],
)
def test_a_roster_that_cannot_be_is_refused(stack: str, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_settings(None, {"name": "s0a", "stack": stack}, (), (), roster=[text])


def test_an_entry_is_read_as_it_is_written() -> None:
    assert [parse_roster_entry(one.text()) for one in ROSTER] == list(ROSTER)


@pytest.mark.parametrize(
    ("seat", "reason"),
    [
        (BrokerSeat("s0a", 1, None, site="s0"), "has no roster"),
        (BrokerSeat("x", 1, "s0a"), "has no roster"),
        (BrokerSeat("s1a", 1, None, roster=ROSTER), "has 2 brokers in the roster; with replicas = 3"),
        (BrokerSeat("s1b", 1, None, roster=ROSTER[2:]), "the parent 's1a' of the site 's1' is not in the roster"),
        (
            BrokerSeat("s1b", 1, None, roster=(*ROSTER, RosterEntry("s2a", "s2"), RosterEntry("s1c", "s1", "s2a"))),
            "has two parents in the roster, 's0' and 's2'",
        ),
    ],
)
def test_a_broker_whose_roster_is_no_tree_of_sites_does_not_start(seat: BrokerSeat, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SITES.make_broker(seat, SitesOptions(), Random(1))


def test_a_broker_knows_its_site_and_the_one_above() -> None:
    config = read_config(BrokerSeat("s1b", 7, None, roster=ROSTER), SitesOptions(replicas=2))
    assert (config.site, config.parent) == ("s1", "s0")
    assert [broker.member for broker in config.brokers] == ["s1a/0", "s1b/0"]
    assert [broker.address for broker in config.above] == ["localhost:7450"]


def test_a_broker_outside_of_sites_is_a_site_by_itself() -> None:
    alone = read_config(BrokerSeat("x", 1, None), SitesOptions())
    assert [broker.name for broker in alone.brokers] == ["x"] and alone.site == "x" and not alone.parent
