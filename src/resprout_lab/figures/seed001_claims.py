"""The claims of chapter 5 of the thesis, each with our figures and a verdict, both computed."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from resprout_lab.figures.seed001_runs import BROKERS, LARGE, SATURATING, Measured
from resprout_lab.figures.seed001_tables import PageNumbers

LINEAR: Final = 0.1
"""Relative difference from a line up to which growth counts as linear."""
SIMILAR: Final = 0.25
"""Relative difference up to which headers count as similar."""
NOT_JUDGED: Final = "cannot be judged"


class LongestRuns(Protocol):
    def longest(
        self, part: str, stack: str, bandwidth: str, publishers: int, brokers: int = BROKERS
    ) -> Measured | None: ...


class Claim(NamedTuple):
    id: str
    says: str
    here: str
    holds: bool | None
    """The verdict; None if the claim cannot be judged."""

    @property
    def verdict(self) -> str:
        return NOT_JUDGED if self.holds is None else "reproduced" if self.holds else "contradicted"

    def __str__(self) -> str:
        return f"| {self.id} | {self.says} | {self.here} | {self.verdict} |"


def grows(of: list[float]) -> float:
    return of[-1] / of[0]


def from_to(of: list[float]) -> str:
    return f"{of[0]:,.0f} to {of[-1]:,.0f}"


def saturating(page: PageNumbers, runs: LongestRuns) -> list[Claim]:
    """Return the claims of 5.1: individual throughput with one message in a bundle, from the tables of the large
    sweeps, and of 5.1b from runs with as many brokers as the thesis has."""
    at: Callable[[str, str], list[float]] = lambda section, stack: page.column(section, 0, stack)  # noqa: E731
    delta, locamu = at("a", "delta"), at("a", "locamu")
    loss = [1 - grows(one) for one in (delta, locamu)]
    last = [at("b", stack)[-1] for stack in ("delta", "locamu")]
    large = {stack: [runs.longest("5.1b", stack, "100Mbit", publishers, LARGE) for publishers in SATURATING]
             for stack in ("delta", "locamu")}  # fmt: skip
    by_publishers = {stack: [one.individual for one in found if one is not None] for stack, found in large.items()}
    is_whole = all(len(found) == len(SATURATING) for found in by_publishers.values())
    few, many = list(SATURATING)[1:]
    linear = by_publishers["delta"][2] / by_publishers["delta"][1] * few / many if is_whole else 0.0
    payload = [at("d", stack)[-1] for stack in ("locamu", "delta")]
    return [
        Claim("5.1a-1", "individual throughput of `delta` falls with the size",
              f"{from_to(delta)} messages a second, 15 to 511 brokers", delta == sorted(delta, reverse=True)),
        Claim("5.1a-2", "that of LoCaMu does not suffer like that",
              f"{from_to(locamu)}: {100 * loss[1]:.0f} % less; `delta` loses {100 * loss[0]:.0f} %",
              loss[1] < loss[0] / 2),
        Claim("5.1b-1", "`delta` grows linearly with publishers",
              f"{from_to(by_publishers['delta'][1:])} from {few} to {many} publishers, {linear:.2f} of linear; the "
              "thesis goes on to 511" if is_whole else "", abs(linear - 1) <= LINEAR if is_whole else None),
        Claim("5.1b-2", "`delta` overtakes LoCaMu",
              f"{last[0]:,.0f} to {last[1]:,.0f} with 127 publishers, at 10 Mbit and 127 brokers; the thesis has "
              "100 Mbit and 511", last[0] > last[1]),
        Claim("5.1b-3", "LoCaMu is near the capacity with one publisher",
              f"{by_publishers['locamu'][0]:,.0f} with one, {by_publishers['locamu'][-1]:,.0f} with {many}"
              if is_whole else "", grows(by_publishers["locamu"]) < 1.25 if is_whole else None),
        Claim("5.1c-1", "`delta` has no use for bandwidth",
              f"{grows(at('c', 'delta')):.1f} times for 1,000 times the bandwidth", grows(at("c", "delta")) < 10),
        Claim("5.1c-2", "LoCaMu uses all of it",
              f"{grows(at('c', 'locamu')):.0f} times", grows(at("c", "locamu")) > 900),
        Claim("5.1d-1", "with large payloads both are alike",
              f"{payload[0]:,.0f} to {payload[1]:,.0f} at 16 KB", payload[0] < 2 * payload[1]),
        Claim("5.1e-1", "LoCaMu drops notably with f",
              f"{from_to(at('e', 'locamu'))} from f = 1 to 3", grows(at("e", "locamu")) < 0.5),
        Claim("5.1f-1", "LoCaMu drops with the degree",
              f"{from_to(at('f', 'locamu'))} from degree 3 to 9", grows(at("f", "locamu")) < 0.5),
        Claim("5.1f-2", "`delta` gains from the degree", from_to(at("f", "delta")), grows(at("f", "delta")) > 1.25),
    ]  # fmt: skip


def by_publishers(page: PageNumbers, runs: LongestRuns) -> list[Claim]:
    """Return the claims of 5.2: headers of the large sweep, in which all brokers are members of the one group."""
    head = {stack: page.column("5.2", 2, stack) for stack in ("cbcast", "locamu", "causal-barriers")}
    cbcast, locamu, barriers = head["cbcast"], head["locamu"], head["causal-barriers"]
    held_up = [runs.longest("5.2", stack, "10Mbit", BROKERS) for stack in ("cbcast", "resprout")]
    told = " of ".join("–" if one is None else f"{one.individual:,.0f}" for one in held_up)
    return [
        Claim("5.2-1", "Causal Barriers has by far the largest headers",
              f"{barriers[-1]:,.0f} bytes with 127 publishers, CBCAST {cbcast[-1]:,.0f}",
              barriers[-1] > 10 * cbcast[-1]),
        Claim("5.2-2", "headers of CBCAST are smaller than LoCaMu's at first, and larger in the end",
              f"{cbcast[0]:,.0f} to {locamu[0]:,.0f} bytes with one publisher, {cbcast[-1]:,.0f} to {locamu[-1]:,.0f} "
              "with 127", cbcast[0] < locamu[0] and cbcast[-1] > locamu[-1]),
        Claim("5.2-3", "at 10 Mbit the throughput of CBCAST falls when the network is saturated",
              f"with {BROKERS} publishers a subscriber gets {told} messages a second; the thesis goes on to 511", None),
    ]  # fmt: skip


def by_groups(page: PageNumbers, runs: LongestRuns) -> list[Claim]:
    """Return the claims of 5.3: headers with many groups and with one, when all brokers publish and none is held up."""
    header: dict[tuple[str, str], float] = {}
    for part in ("5.2", "5.3"):
        for stack in ("locamu", "cbcast", "causal-barriers"):
            one = runs.longest(part, stack, "100Mbit", BROKERS)
            header[part, stack] = one.header if one is not None else 0.0
    is_whole = all(header.values())
    locamu, cbcast, barriers = ([header["5.3", s], header["5.2", s]] for s in ("locamu", "cbcast", "causal-barriers"))
    similar = all(abs(several - single) <= SIMILAR * single for several, single in (locamu, barriers))
    growing = page.column("5.3", 1, "locamu")
    everybody = f"when all {BROKERS} publish"
    return [
        Claim("5.3-1", "headers of LoCaMu and Causal Barriers are similar with one group and with several",
              f"with groups LoCaMu {locamu[0]:,.0f} for {locamu[1]:,.0f} bytes, Causal Barriers {barriers[0]:,.0f} for "
              f"{barriers[1]:,.0f}, {everybody}", similar if is_whole else None),
        Claim("5.3-2", "groups cost CBCAST more",
              f"{cbcast[0]:,.0f} bytes with groups for {cbcast[1]:,.0f} {everybody}",
              cbcast[0] > (1 + SIMILAR) * cbcast[1] if is_whole else None),
        Claim("5.3-3", "at 10 Mbit LoCaMu goes on growing",
              f"{growing[-2]:,.0f} deliveries a second with 32 publishers, {growing[-1]:,.0f} with 127; the thesis "
              "goes on to 511", growing[-1] > 2 * growing[-2]),
    ]  # fmt: skip


def worst(page: PageNumbers) -> list[Claim]:
    """Return the claims of 5.4, from closed forms."""
    found = page.column("5.4", 1, "LoCaMu, with names")
    return [
        Claim("5.4-1", "the largest header of LoCaMu does not depend on the size of the system",
              f"{found[0]:,.0f} bytes at 256, {found[1]:,.0f} at 1,024 and {found[2]:,.0f} at 65,536 nodes",
              len(set(found)) == 1),
    ]  # fmt: skip


def claims(page: PageNumbers, runs: LongestRuns) -> str:
    rows = [*saturating(page, runs), *by_publishers(page, runs), *by_groups(page, runs), *worst(page)]
    return "\n".join(["| claim | the thesis says | here | verdict |", "|---|---|---|---|", *map(str, rows)])
