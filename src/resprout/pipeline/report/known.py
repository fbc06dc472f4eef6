"""What is written down about stacks that do not keep every promise: told as such on the page, and never left out."""

from typing import Final

_BARRIER: Final = (
    "the barrier of the baseline was left as it is: a publication that meets a lock on its way up was delivered at "
    "home before the total, and is delivered after it everywhere beyond"
)
_BOOKS: Final = "follows from the barrier anomaly: replicas of the bank saw different things before a total"

DOCUMENTED: Final[dict[str, dict[str, str]]] = {
    "ginger": {"barrier": _BARRIER, "bank_balance": _BOOKS, "bank_outcome": _BOOKS, "bank_replay": _BOOKS},
}
"""By stack and rule. The documents of the stacks say more (`docs/stacks/`)."""

LIMITS: Final[dict[str, dict[str, str]]] = {
    "ginger": {"lost": "the baseline promises nothing for what only two neighbours had that died together"},
}
"""By stack and rule: what may be the reason, depending on who died. Counted as violations all the same."""


def is_documented(stack: str, rule: str) -> bool:
    return rule in DOCUMENTED.get(stack, {})


def said_about(stack: str, rule: str) -> str:
    """Empty when nothing is written about it."""
    return DOCUMENTED.get(stack, {}).get(rule, "") or LIMITS.get(stack, {}).get(rule, "")
