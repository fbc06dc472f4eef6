"""Who else is in the tree, for the next process of this broker: it looks for them before it founds anything."""

from collections.abc import Iterable

from resprout.core.contract import Remember
from resprout.stacks.resprout.core import Core


class Company:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._told: tuple[str, tuple[str, ...]] | None = None

    def remember(self, admitted: Iterable[str]) -> None:
        """`admitted`: newcomers that are being taken in. To be said before they are: no process of this broker is to
        forget that it is not alone."""
        view = self._core.view
        known = [name for name in view.places if name != view.name and not view.is_dead(name)]
        company = tuple(dict.fromkeys([*known, *admitted]))
        if (view.network, company) != self._told:
            self._told = (view.network, company)
            self._core.out.append(Remember(view.network, company))
