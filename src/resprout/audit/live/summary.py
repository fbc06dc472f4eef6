"""What a live judge has to say in the end, for people and for programs. Both forms are stable."""

from collections.abc import Mapping
from typing import Any, Final

from resprout.audit.live.judge import LIVE_RULES
from resprout.audit.verdict import CLEAN, MET_TIME_LIMIT, RULES, UNFINISHED, VIOLATED
from resprout.trace import kinds
from resprout.trace.live_folder import ABORTED

_ENDS: Final = {
    kinds.QUIESCENT: "the run came to rest",
    kinds.TIMEOUT: "the run met its time limit",
    ABORTED: "the run was broken off",
    "": "the run goes on",
}
_NOTES: Final = {
    "late": "rows came later than is allowed, and were judged when they came",
    "beyond_horizon": "deliveries were older than the horizon: only repetition and fifo were judged",
    "owed_and_forgotten": "deliveries were owed for longer than the horizon, and too many of them to follow",
    "after_the_end": "rows came after the end, and were not judged",
}


def was_judged(counts: Mapping[str, int], found: Mapping[str, int], ended: str) -> bool:
    """Whether anything came that can keep or break a promise, or the end of a run in which nothing was to come."""
    return bool(ended or any(found.values()) or counts.get("publications") or counts.get("deliveries"))


def reliability(counts: Mapping[str, int]) -> float | None:
    """The share of owed deliveries that came, of a run that promises probability; None of any other."""
    if not {"came", "missing", "missing_told"} & counts.keys():
        return None
    return counts.get("came", 0) / _owed(counts)


def _owed(counts: Mapping[str, int]) -> int:
    return counts.get("came", 0) + counts.get("missing", 0) + counts.get("missing_told", 0)


def lines(counts: Mapping[str, int], found: Mapping[str, int], ended: str) -> list[str]:
    """`counts` and `found` of a `LiveJudge`; `ended`: nothing while the run goes on."""
    if not was_judged(counts, found, ended):
        rows = counts.get("rows", 0)
        seen = f"{rows} rows came, and no publication or delivery among them" if rows else "no rows came"
        return [f"nothing was judged: {seen}"]
    published, delivered = counts.get("publications", 0), counts.get("deliveries", 0)
    text = [f"{published} publications and {delivered} deliveries judged as they happened; {_ENDS[ended]}"]
    text += [f"{counts[what]} {words}" for what, words in _NOTES.items() if counts.get(what)]
    width = max(map(len, LIVE_RULES))
    text += [f"{rule:<{width}}  violated ({found[rule]})  {RULES[rule]}" for rule in LIVE_RULES if found.get(rule)]
    if (share := reliability(counts)) is not None and ended == kinds.QUIESCENT:
        told = f"; of {counts['missing_told']} the client was told" if counts.get("missing_told") else ""
        text.append(f"reliability {share:.6f}: {counts.get('came', 0)} of {_owed(counts)} owed deliveries came{told}")
    if ended != kinds.QUIESCENT:
        text.append("what is only missing was not judged: it may still come")
    broken = [rule for rule in LIVE_RULES if found.get(rule)]
    if broken:
        text.append(f"VIOLATED: {sum(found.values())} anomalies ({', '.join(broken)})")
    elif ended == kinds.TIMEOUT:
        text.append(f"UNFINISHED: {MET_TIME_LIMIT}; no violation, as far as it was watched")
    else:
        text.append("clean, as far as it was watched (receipts, durable subscriptions and banks: resprout audit)")
    return text


def as_dict(counts: Mapping[str, int], found: Mapping[str, int], ended: str) -> dict[str, Any]:
    judged = VIOLATED if any(found.values()) else UNFINISHED if ended == kinds.TIMEOUT else CLEAN
    return {
        "verdict": judged if was_judged(counts, found, ended) else "not judged",
        "ended": ended,
        "counts": dict(counts),
        "rules": {rule: found.get(rule, 0) for rule in LIVE_RULES},
    } | ({"reliability": share} if (share := reliability(counts)) is not None and ended == kinds.QUIESCENT else {})
