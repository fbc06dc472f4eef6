"""The largest header of LoCaMu in networks of several sizes, beside its closed form: the size must not matter."""

from benchmarks.locamu_headers import largest_header
from benchmarks.measure import Measure
from resprout_lab.figures.formulas import locamu_header_with_names


def run(quick: bool = False) -> list[Measure]:
    worst = locamu_header_with_names(1, 3)
    sizes = (127,) if quick else (127, 511, 2_047)
    return [
        Measure(f"locamu, {size} brokers", largest_header(size), "bytes", "closed form, f = 1", worst, "the same")
        for size in sizes
    ]
