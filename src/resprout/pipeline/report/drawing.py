"""From a chart of Altair to SVG that stands in the page: drawn here, when the page is made, by the Vega that
`vl-convert` brings with it. Whoever opens the page needs neither it nor a network.

What a mark tells to who points at it is its description, which Vega writes into its `aria-label`; `tips.js` shows it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree

import altair as alt
import msgspec
import vl_convert
from markupsafe import Markup

from resprout.pipeline.report.quantities import legible

_VEGA_LITE: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
_DATA: Final = "panel"
_FONT: Final = "Liberation Sans"
"""Whose letters the drawer measures: it brings them with it, so every machine makes the same page. The page shows them
in its own type, which is about as wide."""
_CONFIG: Final = alt.Config(
    font=_FONT,
    view=alt.ViewConfig(stroke=None),
    axis=alt.AxisConfig(
        labelColor="var(--quiet)", titleColor="var(--quiet)", titleFontWeight="normal", labelFontSize=11,
        titleFontSize=11, domainColor="var(--quiet)", tickColor="var(--quiet)", gridColor="var(--grid)", titlePadding=9,
    ),
    title=alt.TitleConfig(color="var(--ink)", fontSize=12.5, fontWeight=600, anchor="start", frame="bounds", offset=10),
)  # fmt: skip
_NAMESPACES: Final = re.compile(r' xmlns(:\w+)?="[^"]*"')
_LONG: Final = re.compile(r"(\d\.\d\d)\d+")
_UNUSED: Final = ("font-family", "opacity", "role", "aria-roledescription", "pointer-events", "stroke-miterlimit")
"""What the page's style says for all, or what says nothing."""


class ChartPlan(msgspec.Struct, frozen=True):
    """A chart without its data: panels of one figure differ in nothing else, and Altair takes its time to check one."""

    spec: dict[str, Any]

    def drawn(self, rows: Sequence[Mapping[str, Any]], title: str, told: str) -> Markup:
        """`told`: the whole of it in a sentence, for those who cannot see it."""
        spec = {**self.spec, "datasets": {**self.spec.get("datasets", {}), _DATA: rows}, "title": legible(title)}
        return _for_page(vl_convert.vegalite_to_svg(spec, vl_version=_VEGA_LITE, allowed_base_urls=[]), legible(told))


def planned(layers: Sequence[Any], size: tuple[int, int]) -> ChartPlan:
    width, height = size
    chart = alt.layer(
        *layers,
        width=width,
        height=height,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
        padding=2,
        background="transparent",
        config=_CONFIG,
    )
    return ChartPlan(chart.to_dict())


def panel() -> Any:
    """A chart of the rows that `ChartPlan.drawn` is given."""
    return alt.Chart(alt.NamedData(name=_DATA))


def _for_page(svg: str, told: str) -> Markup:
    """Without what only a file by itself needs; a hundredth of a pixel is more exact than any screen."""
    opening, _, rest = svg.partition(">")
    root = ElementTree.fromstring(f"{_NAMESPACES.sub('', opening)}>{rest}")
    root.attrib = {"class": "chart", "viewBox": root.attrib["viewBox"], "role": "img", "aria-label": told}
    for parent in root.iter():
        for child in [child for child in parent if _is_empty(child)]:
            parent.remove(child)
        for name in ("d", "transform"):
            if name in parent.attrib:
                parent.set(name, _LONG.sub(r"\1", parent.attrib[name]))
        if parent is not root:
            for name in _UNUSED:
                parent.attrib.pop(name, None)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _is_empty(element: ElementTree.Element) -> bool:
    """The grounds of groups, which are neither filled nor outlined here."""
    return (
        element.tag in ("rect", "path")
        and element.get("class") in ("background", "foreground", None)
        and (element.get("fill", "transparent") == "transparent" and element.get("stroke") is None)
    )
