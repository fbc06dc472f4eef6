"""docs/experiments/claims.md: the claims of seeds 003 and 004 and reliability with failures, made from runs.

`python -m resprout_lab.figures.claims_page docs/experiments` writes the page from what was measured (`claims_runs`). No
figure and no verdict of the page is typed: each follows from the runs, and a test compares the page with them.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from resprout_lab.figures.claims_runs import Counted, read

SHARES: Final = ("0.0", "0.1", "0.2", "0.4")
SYSTEMS: Final = ("scribe", "gossip", "gossip-lazy", "resprout")
NEAR: Final = 0.99
"""What "near 100 %" is taken to mean (chosen)."""
ALIKE: Final = 0.1
"""Times that differ by no more are "more or less equal" (chosen)."""
TOLERATED: Final = ("one-of-each-site", "silent", "frozen")
"""Failures of seed 003 that its report tolerates."""

Found = Sequence[Counted]


def of(found: Found, sweep: str, **labels: str) -> list[Counted]:
    return [one for one in found if one.sweep == sweep and labels.items() <= one.labels.items()]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def verdict(holds: bool) -> str:
    return "*reproduced*" if holds else "*contradicted*"


def percent(one: Counted) -> str:
    share = f"{100 * one.share:.1f}"
    return share if one.owed else f"{share} (not at rest after {one.limit_s} s)"


# -- reliability -------------------------------------------------------------------------------------------------------


def _curve(found: Found, churn: str, death: str, system: str) -> list[Counted]:
    """One run for each share that dies."""
    of_one = of(found, "seed004-7", churn=churn, system=system)
    none = [one for one in of_one if one.labels["share"] == "0.0"]
    return [*none, *(one for one in of_one if one.labels["share"] != "0.0" and one.labels["death"] == death)]


def curves(found: Found) -> str:
    rows = []
    for churn in ("none", "churn"):
        for death in ("told", "silent"):
            for system in SYSTEMS:
                runs = {one.labels["share"]: one for one in _curve(found, churn, death, system)}
                lost = sum(one.lost for one in runs.values())
                at_rest = all(one.owed for one in runs.values())
                cells = [percent(runs[share]) for share in SHARES]
                rows.append((churn, death, f"`{system}`", *cells, f"{lost:,}" if at_rest else "not known"))
    return table(("churn", "death", "system", "0 of 15", "2", "3", "6", "missing without a word"), rows)


# -- claims of seed 004 ------------------------------------------------------------------------------------------------


def _few_failures(found: Found, death: str) -> list[Counted]:
    runs = [one for system in SYSTEMS[:3] for one in _curve(found, "none", death, system)]
    return [one for one in runs if one.labels["share"] in ("0.1", "0.2")]


def _lowest(runs: Found) -> str:
    low = min(runs, key=lambda one: one.share)
    return f"{percent(low)} % (`{low.labels['system']}`)" if low.owed else f"{percent(low)} (`{low.labels['system']}`)"


def claims_004(found: Found) -> list[tuple[str, str, str]]:
    calm = {one.labels["system"]: one for one in of(found, "seed004-7", churn="none", share="0.0")}
    scribe, gossip = calm["scribe"], calm["gossip"]
    told, silent = _few_failures(found, "told"), _few_failures(found, "silent")
    rings = of(found, "seed004-7", system="scribe")
    rest = sum(one.ended == "quiescent" for one in rings)
    few_rings = [one for one in (*told, *silent) if one.labels["system"] == "scribe"]
    few_rest = sum(one.ended == "quiescent" for one in few_rings)
    beyond = f"{rest} of all {len(rings)}, up to six dead nodes and churn included"
    broken = sorted({rule for one in rings for rule in one.violated})
    later = scribe.converged_ms / gossip.converged_ms - 1
    few, many = scribe.layers["spread"], gossip.layers["spread"]
    return [
        (
            "7.2: without failures reliability is almost 100 %",
            "; ".join(f"`{system}` {percent(calm[system])} %" for system in SYSTEMS[:3]),
            verdict(all(calm[system].share >= NEAR for system in SYSTEMS[:3])),
        ),
        (
            "7.3: with few failures it is near 100 %, where hosts report that processes are gone",
            f"two or three of twenty nodes die: at least {_lowest(told)}",
            verdict(all(one.share >= NEAR for one in told)),
        ),
        (
            "7.3: the same, where hosts fall silent (the report does not tell these apart)",
            f"two or three of twenty nodes die: at least {_lowest(silent)}",
            verdict(all(one.share >= NEAR for one in silent)),
        ),
        (
            "7.3: ring and fingers are regenerated",
            f"{few_rest} of {len(few_rings)} runs of `scribe` with two or three dead nodes come to rest; {beyond}",
            verdict(few_rest == len(few_rings)),
        ),
        (
            "7.4: all replicas have the same order",
            f"rules of order that runs of `scribe` break: {', '.join(broken) or 'none'}",
            verdict(not broken),
        ),
        (
            "7.5: far fewer messages than gossip",
            f"{few:,} and {many:,} at the layer that disseminates, {many / few:.1f} times as many",
            verdict(many >= 2 * few),
        ),
        (
            "7.5: convergence is more or less equal",
            f"{scribe.converged_ms:,.0f} and {gossip.converged_ms:,.0f} ms, {100 * later:+.1f} %",
            verdict(abs(later) <= ALIKE),
        ),
        (
            "7.5: the load is more balanced due to the DHT",
            f"the busiest node sends {scribe.busiest:.2f} times the mean, that of gossip {gossip.busiest:.2f} times",
            verdict(scribe.busiest < gossip.busiest),
        ),
    ]


# -- claims of seed 003 ------------------------------------------------------------------------------------------------


def _clean(runs: Found) -> bool:
    return all(one.ended == "quiescent" and one.share == 1.0 and not one.violated for one in runs)


def _came(runs: Found) -> str:
    return f"{sum(one.came for one in runs):,} of {sum(one.owed for one in runs):,} deliveries in {len(runs)} runs"


def claims_003(found: Found) -> list[tuple[str, str, str]]:
    every = of(found, "seed003")
    tolerated = [one for fails in TOLERATED for one in of(found, "seed003", fails=fails)]
    frozen, two = of(found, "seed003", fails="frozen"), of(found, "seed003", fails="two-of-a-site")
    ordered = {order: [one for one in every if one.labels["order"] == order] for order in ("none", "fifo", "total")}
    calm = {
        (one.labels["order"], one.labels["routing"]): one for one in of(found, "seed003", fails="none")
    }  # fmt: skip
    copies = [(calm[order, "filtering"].copies, calm[order, "flooding"].copies) for order in ordered]
    fifo, total = calm["fifo", "filtering"].median_ms, calm["total", "filtering"].median_ms
    ends = sum(one.ended == "quiescent" for one in every)
    return [
        (
            "3, 6: the system works on if one broker of each site fails (crashed, silent or frozen)",
            _came(tolerated),
            verdict(_clean(tolerated)),
        ),
        (
            "6.3: a leader that wakes up after a freeze is no second leader",
            f"{_came(frozen)}, no place given twice",
            verdict(_clean(frozen)),
        ),
        ("5.1: FIFO order", _came(ordered["fifo"]), verdict(not any(one.violated for one in ordered["fifo"]))),
        ("5.2: total order", _came(ordered["total"]), verdict(not any(one.violated for one in ordered["total"]))),
        (
            "4.2: filtering sends events only where somebody is interested",
            "; ".join(f"{filtering:.1f} messages in place of {flooding:.1f}" for filtering, flooding in copies)
            + " (no order, FIFO, total)",
            verdict(all(filtering < flooding for filtering, flooding in copies)),
        ),
        (
            "7: the root as the only sequencer limits performance",
            f"median from publication to delivery: {total:.1f} ms with total order, {fifo:.1f} ms with FIFO",
            verdict(total > fifo),
        ),
        (
            "8: only one failure per site is tolerated",
            f"two of three crash and return with their disks: {_came(two)}",
            verdict(not _clean(two)) + (": the site waits, and loses nothing" if _clean(two) else ""),
        ),
        (
            "8: messages may go round without end",
            f"{ends} of {len(every)} runs come to rest",
            verdict(ends < len(every)) + (": mended here" if ends == len(every) else ""),
        ),
    ]


PAGE: Final = """\
# Claims of seeds 003 and 004, and reliability with failures

Everything on this page is made from {count} runs in the simulator: the sweeps `seed003` and `seed004-7`, first seed.
Verdicts follow from the runs by the rules in `resprout_lab/figures/claims_page.py`, and a test compares both. Figures 3
to 6 of seed 004 are on [their own page](seed004.md).

```
python -m resprout_lab.figures.claims_runs docs/experiments/claims/runs.json
python -m resprout_lab.figures.claims_page docs/experiments
```

`resprout sweep seed004-7 --out out/seed004-7 --report seed004-7.html` draws the curves, with more seeds.

## Seed 003: sites

Three sites of three brokers; clients of two sites read ([`sites`](../stacks/sites.md)).

{sites}

## Seed 004: Scribe, Chord and Multi-Paxos

Twenty nodes, each a broker with a client that publishes ten messages and reads all of five topics, 10 ms apart
([`scribe`](../stacks/scribe.md), [`gossip`](../stacks/gossip.md)). "Near 100 %" is taken as at least {near:.0f} %, and
"more or less equal" as within {alike:.0f} %.

{scribe}

## Reliability with failures

Percent of owed deliveries that came, when some of fifteen nodes die at once in the middle of the workload.

- *told*: their hosts say that the processes are gone. *silent*: the hosts are gone, too.
- *churn*: four other nodes crash, one every half second. Each returns half a second later with nothing.
- *missing without a word*: deliveries of the whole row that did not come, although no client was told.
- *not at rest*: something still waits after so many seconds of virtual time. The share is then of all publications at
  all clients, whether they are owed or not, so it is a lower bound. A ring calls silent brokers for minutes, because
  they may be behind a partition.

`scribe` and the default stack claim to survive one dead node at a time: columns with more are beyond that.

{curves}
"""


def page(found: Found) -> str:
    head = ("the report says", "here", "")
    return PAGE.format(
        count=len(found), near=100 * NEAR, alike=100 * ALIKE, curves=curves(found),
        sites=table(head, claims_003(found)), scribe=table(head, claims_004(found)),
    )  # fmt: skip


def main(folder: Path) -> None:
    found = list(read(folder / "claims" / "runs.json").values())
    (folder / "claims.md").write_text(page(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
