"""Groups of bars as SVG, without a library: `BarPlot(...).svg()`. Each group has a scale of its own."""

from collections.abc import Mapping
from dataclasses import dataclass

from line_plot import COLOURS, text_at

WIDTH, LEFT, RIGHT, TOP = 860, 190, 230, 34
BAR, GAP = 18, 22  # of height; between groups


@dataclass(frozen=True, kw_only=True)
class BarPlot:
    """Lying bars. The first of a group is what the others are compared with."""

    title: str
    groups: Mapping[str, Mapping[str, float]]

    def svg(self) -> str:
        """The whole file."""
        names = list(dict.fromkeys(name for bars in self.groups.values() for name in bars))
        height = TOP + sum(BAR * len(bars) + GAP for bars in self.groups.values())
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            f'font-size="12"><rect width="{WIDTH}" height="{height}" fill="white"/>',
            text_at(8, 20, self.title, weight="bold", size=14),
        ]
        y = TOP + GAP / 2
        for group, bars in self.groups.items():
            parts.append(text_at(8, y + 13, group, weight="bold"))
            first, greatest = next(iter(bars.values()), 0.0), max(bars.values(), default=0.0) or 1.0
            for name, value in bars.items():
                colour = COLOURS[names.index(name) % len(COLOURS)]
                length = (WIDTH - LEFT - RIGHT) * value / greatest
                label = f"{value:,.0f}" + (f" (× {value / first:.2f})" if first and value != first else "")
                parts += [
                    text_at(LEFT - 6, y + 13, name, anchor="end", fill=colour),
                    f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 3}" fill="{colour}"/>',
                    text_at(LEFT + length + 6, y + 13, label),
                ]
                y += BAR
            y += GAP
        return "\n".join([*parts, "</svg>\n"])
