"""docs/experiments/seed000.md, made from what was measured (`seed000_runs`) and from the replays of the annexes.

`python -m resprout_lab.figures.seed000_page docs/experiments` writes the page and its charts. No figure of the page is
typed: a test compares the page with the file of results, and runs some of them again. Charts are SVG with a logarithmic
axis, because averages reach from half a second to a minute.
"""

import itertools
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from resprout_lab.figures.seed000_runs import CRASHES, FAULTS, KEYS, SYSTEMS, Measured, read

COLOURS: Final = {"as published": "#b45309", "corrected": "#6b7280", "default": "#0f766e"}
WIDTH: Final = 960
HEIGHT: Final = 320
LEFT: Final = 60
BOTTOM: Final = 90
TOP: Final = 50

GUARANTEES: Final = ("eventual", "causal", "total")
CHILDREN: Final = {"b0": ("b1", "b2", "b3"), "b1": ("b4", "b5"), "b2": ("b6",), "b3": ("b7",), "b4": ()}
DRIVERS: Final = ("crashes", "processes")
Found = Sequence[Measured]


def bars(title: str, series: dict[str, dict[str, float]]) -> str:
    """One group of bars for each point, one bar for each system; a value of nothing has no bar."""
    labels = list(dict.fromkeys(label for values in series.values() for label in values))
    highest = max([value for values in series.values() for value in values.values()], default=1.0)
    top = max(1, math.ceil(math.log10(max(highest, 10.0))))
    plot = HEIGHT - TOP - BOTTOM
    group = (WIDTH - LEFT - 10) / max(1, len(labels))
    width = group * 0.8 / max(1, len(series))

    def height(value: float) -> float:
        return plot * max(0.0, math.log10(max(value, 1.0))) / top

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
            ' font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{title} (logarithmic)</text>',
    ]
    for exponent in range(top + 1):
        y = TOP + plot - plot * exponent / top
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**exponent:,}</text>')
    for number, (system, values) in enumerate(series.items()):
        out.append(f'<rect x="{LEFT + 140 * number}" y="28" width="10" height="10" fill="{COLOURS[system]}"/>')
        out.append(f'<text x="{LEFT + 140 * number + 14}" y="37">{system}</text>')
        for place, label in enumerate(labels):
            if value := values.get(label, 0.0):
                x = LEFT + group * place + group * 0.1 + width * number
                y = TOP + plot - height(value)
                told = f"<title>{system}, {label}: {value:,.0f}</title>"
                shape = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height(value):.1f}"'
                out.append(f'<rect {shape} fill="{COLOURS[system]}">{told}</rect>')
    for place, label in enumerate(labels):
        x, y = LEFT + group * (place + 0.5), TOP + plot + 12
        out.append(f'<text x="{x:.1f}" y="{y}" text-anchor="end" transform="rotate(-40 {x:.1f} {y})">{label}</text>')
    return "\n".join([*out, "</svg>\n"])


def _of(found: Found, part: str, system: str, **values: object) -> list[Measured]:
    return [
        one
        for one in found
        if (one.part, one.system) == (part, system) and all(getattr(one, name) == at for name, at in values.items())
    ]


def _mean(found: Iterable[float]) -> float:
    values = list(found)
    return statistics.fmean(values) if values else 0.0


def _latency(runs: Found, guarantee: str) -> float:
    return _mean(one.mean_ms[guarantee] for one in runs if guarantee in one.mean_ms)


def _ms(value: float) -> str:
    return f"{value:,.0f}"


def _anomalies(runs: Found) -> str:
    """All that the judge found in these runs, and how much of it is lost."""
    total = sum(sum(one.anomalies.values()) for one in runs)
    lost = sum(one.anomalies.get("lost", 0) for one in runs)
    return f"{total:,}" + (f" ({lost:,} lost)" if lost else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


# -- the figures -------------------------------------------------------------------------------------------------------


def figure_53(found: Found) -> tuple[str, dict[str, dict[str, float]]]:
    """Reconfiguration time by rounds."""
    times: dict[str, dict[int, list[float]]] = {system: {} for system in SYSTEMS}
    for one in found:
        if one.part in ("5.3", "5.4", "crashes"):
            for rounds, ms in one.repairs:
                times[one.system].setdefault(rounds, []).append(ms)
    all_rounds = sorted({at for system in SYSTEMS[:2] for at in times[system]})

    def cell(system: str, at: int) -> str:
        values = times[system].get(at, [])
        return f"{_ms(_mean(values))} ({len(values)})" if values else "–"

    rows = [
        (str(at) if at else "0: the new root", cell("as published", at), cell("corrected", at)) for at in all_rounds
    ]
    default = [ms for values in times["default"].values() for ms in values]
    rows.append(("none: the coordinator places all", "–", f"default: {_ms(_mean(default))} ({len(default)})"))
    chart = {
        system: {str(at): _mean(times[system][at]) for at in all_rounds if at in times[system]}
        for system in SYSTEMS[:2]
    }
    return _table(("rounds", "as published, ms (orphans)", "corrected, ms (orphans)"), rows), chart


def figure_54(found: Found) -> str:
    rows = []
    for faults, dead in FAULTS.items():
        for system in SYSTEMS:
            runs = _of(found, "5.4", system, dead=dead)
            rows.append((faults, system, *[_ms(_latency(runs, one)) for one in GUARANTEES], _anomalies(runs)))
    return _table(("faults", "system", *[f"{one}, ms" for one in GUARANTEES], "anomalies"), rows)


def figure_55(found: Found) -> str:
    rows = []
    for keys in KEYS:
        for faults, dead in FAULTS.items():
            cells = []
            for system in SYSTEMS:
                runs = _of(found, "5.5", system, dead=dead, keys=keys)
                cells += [" / ".join(_ms(_latency(runs, one)) for one in GUARANTEES), _anomalies(runs)]
            rows.append((f"{keys:,}", faults, *cells))
    head = ["keys", "faults", *[word for system in SYSTEMS for word in (f"{system}, ms", "anomalies")]]
    return _table(head, rows)


def crash_table(found: Found, part: str) -> str:
    rows = []
    for dead in CRASHES:
        cells = []
        for system in SYSTEMS:
            runs = _of(found, part, system, dead=dead)
            lost = sum(one.anomalies.get("lost", 0) for one in runs)
            rest = {rule: count for one in runs for rule, count in one.anomalies.items() if rule != "lost"}
            words = ", ".join(f"{rule} {count:,}" for rule, count in rest.items()) or "none"
            cells += [f"{lost:,}", words] if runs else ["–", "not run"]
        rows.append((", ".join(dead), *cells))
    head = ["die", *[word for system in SYSTEMS for word in (f"{system}: lost", "other anomalies")]]
    return _table(head, rows)


def _losing(found: Found) -> str:
    """In how many crash cases messages are lost, as published."""
    losing = [sum(one.anomalies.get("lost", 0) > 0 for one in _of(found, part, "as published")) for part in DRIVERS]
    return f"{losing[0]} of the thesis' five cases in the simulator and {losing[1]} with processes"


# -- the claims --------------------------------------------------------------------------------------------------------


def _rises(values: Sequence[float]) -> bool:
    return all(after >= before for before, after in itertools.pairwise(values))


def _verdict(holds: bool) -> str:
    return "*reproduced*" if holds else "*contradicted*"


def _listed(values: Iterable[float]) -> str:
    return ", ".join(_ms(value) for value in values)


def _completed(folder: Path, annex: str, broker: str) -> int:
    text = (folder / "seed000" / f"annex-{annex}.txt").read_text()
    match = re.search(rf"{broker} \| reconfiguration completed in (\d+) ms", text)
    assert match is not None, annex
    return int(match[1])


def claims(found: Found, folder: Path, chart: dict[str, dict[str, float]]) -> str:
    published: Callable[..., list[Measured]] = lambda part, **values: _of(found, part, "as published", **values)  # noqa: E731
    calm = published("5.4", dead=())
    crashes = published("crashes")
    lost = [one.anomalies.get("lost", 0) for one in crashes]
    twice = [one.anomalies.get("twice", 0) for one in crashes]
    order = sum(one.anomalies.get(rule, 0) for one in calm for rule in ("fifo", "causal", "barrier"))
    corrected = [one.anomalies.get("lost", 0) for one in _of(found, "crashes", "corrected")]
    by_faults = {g: [_latency(published("5.4", dead=dead), g) for dead in FAULTS.values()] for g in GUARANTEES}
    by_keys = {g: [_latency(published("5.5", dead=(), keys=keys), g) for keys in KEYS] for g in GUARANTEES}
    slower = {
        (keys, g): [_latency(published("5.5", dead=dead, keys=keys), g) for dead in FAULTS.values()]
        for keys in KEYS
        for g in GUARANTEES
    }
    rounds = [(at, ms) for at, ms in chart["as published"].items() if at != "0"]
    growing = sum(_rises(values) for values in slower.values())
    ratio = {g: by_faults[g][-1] / by_faults[g][0] for g in GUARANTEES}
    faster = all(by_faults[g][at] < by_faults["total"][at] for g in ("eventual", "causal") for at in range(4))
    orphans = {dead: [node for name in dead for node in CHILDREN[name] if node not in dead] for dead in CRASHES}
    counts = [(len(one.repairs), len(orphans[one.dead])) for one in crashes]
    rows = [
        ("5.3, property 1", "a broker tells its neighbours when one was added or failed",
         "[annex II](seed000/annex-ii.txt)", "*reproduced*"),
        ("5.3, property 2", "views follow hops and directions of path entries",
         "[annex III](seed000/annex-iii.txt): ancestors 0, 2 and 3 of broker 4, from the same entries", "*reproduced*"),
        ("5.3, property 3", "failed brokers leave the views", "[annex IV](seed000/annex-iv.txt)", "*reproduced*"),
        ("5.3, property 4", "*residualDegree* falls and rises with neighbours",
         "[annex IV](seed000/annex-iv.txt); the pseudocode says the opposite", "*reproduced*"),
        ("5.3, property 5", "the root's children elect broker 2",
         "[annex VI](seed000/annex-vi.txt): the same votes, the same root", "*reproduced*"),
        ("5.3, property 6", "requests are refused for the degree and for topics",
         "[annex VIII](seed000/annex-viii.txt): 0 and 4 decline, 2 accepts", "*reproduced*"),
        ("5.3, property 7", "holding prevents processing out of order",
         (f"messages are held ([annex VII](seed000/annex-vii.txt)); without any fault there are {order:,} anomalies of "
         f"order in {len(calm)} runs"), "*contradicted*"),
        ("5.3, property 8", "missed messages are detected and delivered in order",
         f"detected ([annex VIII](seed000/annex-viii.txt)); lost in the five cases: {_listed(lost)}",
         _verdict(not any(lost))),
        ("5.1", "messages are not duplicated", f"delivered twice in the five cases: {_listed(twice)}",
         _verdict(not any(twice))),
        ("5.3.4", "totals that a failure interrupts are finished",
         ("sent again as in [annex V](seed000/annex-v.txt); acknowledgements of dead children count (G11), and losses "
         "above include totals"), _verdict(not any(lost))),
        ("5.1.1, 6", "delivery guarantees are upheld",
         f"{order:,} anomalies of fifo, causal and barrier without faults; corrected: lost {_listed(corrected)}",
         _verdict(order == 0)),
        ("5.1.1, 6", "no message is lost", f"lost in the five cases: {_listed(lost)}", _verdict(not any(lost))),
        ("6", "nodes find a replacement for their parent",
         "orphans with a new parent, of those expected: " + ", ".join(f"{got} of {due}" for got, due in counts),
         _verdict(all(got >= due for got, due in counts))),
        ("annex VII", "the parent's reconfiguration takes 91 ms",
         f"{_completed(folder, 'vii', 'b0')} ms: latencies are chosen, and a session costs round trips",
         "*cannot be judged*: the thesis does not print its latencies"),
        ("annex VIII", "three rounds take 579 ms",
         f"{_completed(folder, 'viii', 'b5'):,} ms: each round opens a session over the same long links",
         "*cannot be judged*: the same"),
        ("5.4.1, figure 5.3", "reconfiguration time grows with the rounds",
         ", ".join(f"{at}: {_ms(ms)} ms" for at, ms in rounds), _verdict(_rises([ms for _, ms in rounds]))),
        ("5.4.2", "eventual and causal are faster than total",
         f"at 0 to 3 faults, total: {_listed(by_faults['total'])} ms; causal: {_listed(by_faults['causal'])} ms",
         _verdict(faster)),
        ("5.4.2, 6", "without faults latency follows the links",
         f"eventual {_ms(by_faults['eventual'][0])} ms on average over paths of {_path_ms():,.0f} ms",
         _verdict(by_faults["eventual"][0] < 2 * _path_ms())),
        *[("5.4.2, figure 5.4", f"latency of {g} grows with the faults", f"{_listed(by_faults[g])} ms",
           _verdict(_rises(by_faults[g])) + ("" if _rises(by_faults[g]) else ": what is lost has no latency"))
          for g in GUARANTEES],
        ("5.4.3, figure 5.5", "more keys, lower latency",
         "; ".join(f"{g}: {_listed(by_keys[g])} ms" for g in GUARANTEES),
         _verdict(all(_rises(values[::-1]) for values in by_keys.values()))),
        ("5.4.3, figure 5.5", "more faults, higher latency at each number of keys",
         f"{growing} of {len(slower)} series rise throughout", _verdict(growing == len(slower))),
        ("6", "failures have only a slight impact on latency",
         ", ".join(f"{g} × {ratio[g]:.1f}" for g in GUARANTEES) + " with three faults",
         "*cannot be judged*: the thesis gives no number"),
    ]  # fmt: skip
    return _table(("in the thesis", "claim", "here, as published", ""), rows)


def _path_ms() -> float:
    """Links between each publisher and each reader of its topic, clients included, on average."""
    up = {"b0": 0, "b1": 115, "b2": 37, "b3": 240, "b4": 40, "b5": 25, "b6": 30, "b7": 50}
    above = {"b1": "b0", "b2": "b0", "b3": "b0", "b4": "b1", "b5": "b1", "b6": "b2", "b7": "b3"}
    paths = []
    for homes in (("b4", "b6", "b7"), ("b5", "b6")):
        for one in homes:
            for other in homes:
                lines = []
                for node in (one, other):
                    line = [node]
                    while line[-1] in above:
                        line.append(above[line[-1]])
                    lines.append(line)
                paths.append(sum(up[node] for node in set(lines[0]) ^ set(lines[1])))
    return _mean(paths)


QUESTIONS: Final = (
    ("views are updated when brokers join and leave", "test_annex_ii_...", "test_annex_iii_...", "yes"),
    ("requests are handled by the residual degree", "test_annex_iv_...", "test_the_degree_is_kept_...", "yes"),
    ("a refused broker finds another one", "test_annex_viii_...", "test_a_broker_that_is_refused_by_all_...", "yes"),
    ("no message is lost", "test_as_published_messages_are_lost_...", "test_corrected_nothing_is_lost_...",
     "as published no; corrected yes"),
    ("totals are finished after a fault", "test_annex_v_...", "test_corrected_nothing_is_lost_...",
     "as published not all; corrected yes"),
    ("guarantees are upheld", "test_as_published_everything_is_delivered_...",
     "test_corrected_any_moment_of_a_crash_is_survived", "as published no; corrected all but the barrier (G13)"),
    ("a child replaces the root", "test_annex_vi_broker_2_is_elected", "test_corrected_any_moment_...[b0]", "yes"),
)  # fmt: skip


def page(found: Found, folder: Path) -> tuple[str, dict[str, str]]:
    """The text, and charts by file name."""
    table_53, chart_53 = figure_53(found)
    charts = {
        "figure-5.3.svg": bars("Figure 5.3: reconfiguration time by rounds, ms", chart_53),
        "figure-5.4.svg": bars(
            "Figure 5.4: average latency by faults and guarantee, ms",
            {
                system: {
                    f"{faults} {guarantee}": _latency(_of(found, "5.4", system, dead=dead), guarantee)
                    for faults, dead in FAULTS.items()
                    for guarantee in GUARANTEES
                }
                for system in SYSTEMS
            },
        ),
        "figure-5.5.svg": bars(
            "Figure 5.5: average latency by keys and faults, all guarantees, ms",
            {
                system: {
                    f"{keys} keys, {faults}": _mean(
                        _latency(_of(found, "5.5", system, dead=dead, keys=keys), guarantee) for guarantee in GUARANTEES
                    )
                    for keys in KEYS
                    for faults, dead in FAULTS.items()
                }
                for system in SYSTEMS
            },
        ),
    }
    questions = [(question, f"`{one}`", f"`{other}`", answer) for question, one, other, answer in QUESTIONS]
    text = (folder / "seed000" / "page.txt").read_text()
    parts = {
        "CLAIMS": claims(found, folder, chart_53),
        "QUESTIONS": _table(("question of section 5.1.1", "as published", "corrected", "answer"), questions),
        "FIGURE_53": table_53,
        "FIGURE_54": figure_54(found),
        "FIGURE_55": figure_55(found),
        "LOSING": _losing(found),
        "CRASHES": crash_table(found, "crashes"),
        "PROCESSES": crash_table(found, "processes"),
    }
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    return text, charts


def main(folder: Path) -> None:
    text, charts = page(list(read(folder / "seed000" / "runs.json").values()), folder)
    (folder / "seed000.md").write_text(text)
    for name, chart in charts.items():
        (folder / "seed000" / name).write_text(chart)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
