"""How the page looks: one style sheet for light, dark, phone and print.

Series colours are told apart by people with any kind of colour vision, on both grounds; hatchings and dashes tell the
same once more. Text has a contrast of at least 4.5 to 1 to its ground.
"""

from typing import Final

from resprout.pipeline.report.markup import Markup

_SANS: Final = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif'
_MONO: Final = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'

_COLOURS: Final = """
:root {
  color-scheme: light dark;
  --ground: #fff; --raised: #f6f7f9; --ink: #1b1f24; --quiet: #57606a; --rule: #d5dae0; --grid: #e6e9ed;
  --link: #0b5cad; --good: #11693a; --good-ground: #e5f4ea; --known: #7a4f00; --known-ground: #fdf3dc; --bad: #a61b1b;
  --bad-ground: #fdeaea;
  --c0: #0b6fb8; --c1: #c2540a; --c2: #12805c; --c3: #9a3f86; --c4: #6b6b6b; --c5: #8a6d00;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #14171b; --raised: #1d2126; --ink: #e7eaee; --quiet: #a3abb5; --rule: #39414a; --grid: #2a3037;
    --link: #7db8f0; --good: #7fd6a0; --good-ground: #15301f; --known: #f0c266; --known-ground: #33280e;
    --bad: #ff9b95; --bad-ground: #3a1a1a;
    --c0: #5eb1ef; --c1: #f09350; --c2: #4cc38a; --c3: #d694c6; --c4: #a9a9a9; --c5: #d9b930;
  }
}
"""

_PAGE: Final = f"""
* {{ box-sizing: border-box }}
html {{ -webkit-text-size-adjust: 100%; text-size-adjust: 100% }}
body {{ margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 {_SANS}; overflow-wrap: anywhere }}
body > * {{ max-width: 1140px; margin-inline: auto; padding-inline: 20px }}
header {{ padding-block: 36px 4px }}
h1 {{ font-size: 1.9rem; line-height: 1.2; margin: 0 0 6px; letter-spacing: -.01em }}
h2 {{ font-size: 1.4rem; line-height: 1.25; margin: 0 0 8px; letter-spacing: -.01em }}
h3 {{ font-size: 1.06rem; line-height: 1.3; margin: 34px 0 6px }}
p {{ margin: 8px 0; max-width: 78ch }}
a {{ color: var(--link); text-underline-offset: 2px }}
:focus-visible {{ outline: 3px solid var(--link); outline-offset: 2px; border-radius: 3px }}
nav ul {{ list-style: none; margin: 16px 0 0; padding: 12px 0; border-block: 1px solid var(--rule); display: flex;
  flex-wrap: wrap; gap: 4px 22px }}
section {{ padding-block: 34px 8px }}
section + section {{ border-top: 1px solid var(--rule) }}
footer {{ padding-block: 10px 40px; margin-top: 20px }}
pre {{ background: var(--raised); border: 1px solid var(--rule); border-radius: 8px; padding: 10px 14px; margin: 10px 0;
  overflow-x: auto; max-width: 100%; font: 13.5px/1.55 {_MONO} }}
code {{ font: .9em {_MONO} }}
details {{ margin: 10px 0 }}
summary {{ cursor: pointer; color: var(--link); font-size: .92rem; width: fit-content }}
details ul, .told {{ margin: 8px 0; padding-left: 20px; font-size: .9rem; max-width: 100ch }}
details li, .told li {{ margin: 4px 0 }}
.lead {{ color: var(--quiet); font-size: 1.05rem }}
.quiet, footer {{ color: var(--quiet); font-size: .92rem }}
.skip {{ position: absolute; left: -9999px }}
.skip:focus {{ left: 12px; top: 12px; background: var(--ground); padding: 8px 14px; z-index: 1 }}
.banner {{ border-radius: 8px; padding: 14px 18px; margin: 16px 0; font-size: 1.12rem; font-weight: 600;
  border-left: 6px solid }}
.banner p {{ margin: 4px 0 0; font-size: .95rem; font-weight: 400; color: var(--ink) }}
.tag {{ display: inline-block; border-radius: 4px; padding: 0 7px; font-size: .84rem; font-weight: 600;
  white-space: nowrap }}
.good {{ color: var(--good); background: var(--good-ground) }}
.known {{ color: var(--known); background: var(--known-ground) }}
.bad {{ color: var(--bad); background: var(--bad-ground) }}
.plain {{ color: var(--quiet); background: var(--raised) }}
"""

_TABLES: Final = """
.box { overflow-x: auto; margin: 12px 0; border: 1px solid var(--rule); border-radius: 8px; max-width: 100%;
  width: fit-content }
table { border-collapse: collapse; font-size: .87rem; line-height: 1.4; font-variant-numeric: tabular-nums }
caption { text-align: left; padding: 8px 12px; color: var(--quiet) }
caption span { display: inline-block; position: sticky; left: 12px; max-width: min(70ch, 100vw - 54px) }
th, td { padding: 4px 12px; text-align: left; vertical-align: top; border-top: 1px solid var(--grid);
  overflow-wrap: normal }
thead th { font-weight: 600; border-top: 0; vertical-align: bottom; background: var(--raised); white-space: nowrap }
tbody th { font-weight: 500; white-space: nowrap }
tr.first > * { border-top-color: var(--rule) }
th[scope=colgroup] { text-align: center }
.num { text-align: right; white-space: nowrap }
.wrapped { white-space: normal }
.range { color: var(--quiet) }
.group { border-left: 1px solid var(--grid) }
"""

_CHARTS: Final = f"""
figure {{ margin: 12px 0 0 }}
figcaption {{ font-size: .9rem; color: var(--quiet); max-width: 88ch; margin-top: 8px }}
.beside {{ display: grid; grid-template-columns: minmax(0, 420px) minmax(0, 1fr); gap: 0 34px; align-items: start }}
.panels {{ display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 14px 26px; margin-top: 8px }}
.panels.narrow {{ grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 14px }}
.panels.one {{ grid-template-columns: minmax(0, 420px) }}
svg {{ display: block; width: 100%; height: auto; overflow: visible }}
svg text {{ font: 11px {_SANS}; fill: var(--quiet) }}
svg .panel {{ font-size: 12.5px; font-weight: 600; fill: var(--ink) }}
svg .mid {{ text-anchor: middle }}
svg .end {{ text-anchor: end }}
.line-grid {{ stroke: var(--grid) }}
.line-base {{ stroke: var(--quiet) }}
.bar {{ fill: var(--c); stroke: var(--c) }}
.s1 .bar {{ fill: url(#hatch1) }}
.s2 .bar {{ fill: var(--ground); stroke-width: 1.5 }}
.s3 .bar {{ fill: url(#hatch3) }}
.s4 .bar {{ fill-opacity: .35 }}
.s5 .bar {{ fill: url(#hatch5) }}
.whisker {{ stroke: var(--ink); fill: none; stroke-width: 1.1 }}
.line {{ stroke: var(--c); fill: none; stroke-width: 2 }}
.s1 .line {{ stroke-dasharray: 6 3 }}
.s2 .line {{ stroke-dasharray: 2 3 }}
.s3 .line {{ stroke-dasharray: 9 3 2 3 }}
.s4 .line {{ stroke-dasharray: 12 4 }}
.s5 .line {{ stroke-dasharray: 4 2 1 2 }}
.point {{ fill: var(--c); stroke: var(--ground); stroke-width: 1 }}
.s0 {{ --c: var(--c0) }}
.s1, #hatch1 {{ --c: var(--c1) }}
.s2 {{ --c: var(--c2) }}
.s3, #hatch3 {{ --c: var(--c3) }}
.s4 {{ --c: var(--c4) }}
.s5, #hatch5 {{ --c: var(--c5) }}
pattern path {{ stroke: var(--c); stroke-width: 2.2 }}
pattern rect {{ fill: var(--ground) }}
.patterns {{ position: absolute; width: 0; height: 0 }}
.struck {{ stroke: var(--bad); stroke-width: 1.6 }}
.mending {{ fill: var(--known); fill-opacity: .2 }}
.legend {{ list-style: none; display: flex; flex-wrap: wrap; gap: 2px 20px; margin: 6px 0 0; padding: 0;
  font-size: .9rem }}
.legend li {{ display: flex; align-items: center; gap: 7px }}
.legend svg {{ width: 22px; height: 13px }}
"""

_MEDIA: Final = """
@media (max-width: 1000px) {
  .panels, .panels.narrow { grid-template-columns: repeat(2, minmax(0, 1fr)) }
  .beside { grid-template-columns: minmax(0, 1fr) }
}
@media (max-width: 700px) {
  body > * { padding-inline: 14px }
  header { padding-block: 22px 0 }
  h1 { font-size: 1.55rem }
  h2 { font-size: 1.25rem }
  th, td { padding: 4px 9px }
  thead th { white-space: normal }
  .panels, .panels.narrow { grid-template-columns: minmax(0, 420px) }
}
@media print {
  body { font-size: 10.5pt }
  body > * { max-width: none; padding-inline: 0 }
  nav, .skip { display: none }
  .panels { grid-template-columns: repeat(3, minmax(0, 1fr)) }
  .panels.narrow { grid-template-columns: repeat(4, minmax(0, 1fr)) }
  .s1 .bar, .s3 .bar, .s5 .bar { fill: var(--c); fill-opacity: .3 }
  figure, tr, pre, .banner { break-inside: avoid }
  h2, h3, caption, thead { break-after: avoid }
  .box { overflow: visible }
  a { color: inherit; text-decoration: none }
  .banner, .tag, thead th, svg { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
"""

CSS: Final = Markup("".join((_COLOURS, _PAGE, _TABLES, _CHARTS, _MEDIA)))

_HATCHES: Final = {1: "M-1 1l2 -2M0 6l6 -6M5 7l2 -2", 3: "M-1 5l2 2M0 0l6 6M5 -1l2 2", 5: "M0 3H6"}

PATTERNS: Final = Markup(
    '<svg class="patterns" aria-hidden="true" focusable="false"><defs>'
    + "".join(
        f'<pattern id="hatch{number}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6"/><path d="{path}"/></pattern>'
        for number, path in _HATCHES.items()
    )
    + "</defs></svg>"
)
"""Fills for bars, drawn once for the whole page."""
