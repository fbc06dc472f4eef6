"""Bar charts as SVG, on a logarithmic axis: averages between half a second and a minute stand in one picture."""

import math
from typing import Final

COLOURS: Final = {"as published": "#b45309", "corrected": "#6b7280", "default": "#0f766e"}
WIDTH: Final = 960
HEIGHT: Final = 320
LEFT: Final = 60
BOTTOM: Final = 90
TOP: Final = 50


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
