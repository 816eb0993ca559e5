"""Curves as SVG, without a library: `LinePlot(...).svg()`."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 860, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 200, 34, 44
# Told apart also by those who see red and green alike.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#555555")
NUM_TICKS = 5


@dataclass(frozen=True, kw_only=True)
class LinePlot:
    """One or more curves over a common axis. `log_x` for what doubles from point to point."""

    title: str
    x_label: str
    y_label: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False
    from_zero: bool = True

    def svg(self) -> str:
        """The whole file."""
        xs = [self._at(x) for curve in self.curves.values() for x, _ in curve]
        ys = [y for curve in self.curves.values() for _, y in curve]
        if not xs:
            raise ValueError(f"{self.title}: nothing to draw")
        across = _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
        up = _Scale(0.0 if self.from_zero else min(ys), max(ys), HEIGHT - BOTTOM, TOP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            text_at(LEFT, 20, self.title, weight="bold", size=14),
            text_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.x_label, anchor="middle"),
            text_at(LEFT, TOP - 4, self.y_label, fill="#555555", size=11, anchor="end"),
        ]
        for y in ticks(up.low, up.high):
            parts.append(
                f'<path d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
                + text_at(LEFT - 6, up(y) + 4, _number(y), anchor="end")
            )
        for x in self._x_ticks(across):
            parts.append(text_at(across(self._at(x)), HEIGHT - BOTTOM + 16, _number(x), anchor="middle"))
        for place, (name, curve) in enumerate(self.curves.items()):
            colour = COLOURS[place % len(COLOURS)]
            points = " ".join(f"{across(self._at(x)):.1f},{up(y):.1f}" for x, y in curve)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            parts.append(text_at(WIDTH - RIGHT + 12, TOP + 8 + 18 * place, name, fill=colour))
        return "\n".join([*parts, "</svg>\n"])

    def _at(self, x: float) -> float:
        return math.log2(x) if self.log_x else x

    def _x_ticks(self, across: "_Scale") -> Sequence[float]:
        if self.log_x:
            return sorted({x for curve in self.curves.values() for x, _ in curve})
        return ticks(across.low, across.high)


class _Scale:
    """Values to places on the paper. Of one value only, somewhere in the middle."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low = low
        self.high = high if high > low else low + 1.0
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)


def ticks(low: float, high: float) -> list[float]:
    """A few round numbers from low to high."""
    rough = (high - low) / NUM_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def text_at(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    fill: str = "black",
    size: int = 12,
    weight: str = "normal",
) -> str:
    """One line of text; `y` is its foot."""
    style = f'text-anchor="{anchor}" fill="{fill}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(text)}</text>'
