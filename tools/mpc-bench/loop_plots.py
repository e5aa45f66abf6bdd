# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loss curves of loops.py as a compact SVG without embedded fonts."""
import html
import math

COLOURS = ["#333333", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
WIDTH, LEFT, RIGHT, TOP = 720, 52, 12, 12
# Steps per point: losses of single batches are too noisy.
POINT = 15


def smooth(losses):
    return [sum(losses[i:i + POINT]) / len(losses[i:i + POINT]) for i in range(0, len(losses), POINT)]


def ticks(low, high, count=5):
    """Round axis ticks between two numbers."""
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (f * step) <= count)
    return [round(i * step, 9) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


class Panel:
    """A plot area with axes; curves are lists of y, one for each POINT steps."""

    def __init__(self, top, height, low, high, points, title):
        high = max(high, low + 1e-3)
        self.top, self.height, self.low, self.high, self.points = top, height, low, high, points
        self.parts = [f'<text x="{LEFT}" y="{top - 4}">{html.escape(title)}</text>']
        for value in ticks(low, high):
            y = self.y(value)
            self.parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                              f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')

    def x(self, index):
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / self.points, 1)

    def y(self, value):
        value = min(max(value, self.low), self.high)
        return round(self.top + self.height * (self.high - value) / (self.high - self.low), 1)

    def curve(self, values):
        """A path in whole pixels."""
        points = [(round(self.x(i)), round(self.y(v))) for i, v in enumerate(values)]
        moves = (f"{x - a} {y - b}" for (a, b), (x, y) in zip(points, points[1:]))
        return f"M{points[0][0]} {points[0][1]}l" + " ".join(moves).replace(" -", "-")

    def band(self, size):
        top, bottom = self.y(size), self.y(-size)
        self.parts.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{bottom - top:.1f}" '
                          'fill="#ccc" fill-opacity="0.5"/>')

    def steps(self):
        for i in range(0, self.points + 1, max(1, self.points // 5)):
            self.parts.append(f'<text x="{self.x(i - 0.5)}" y="{self.top + self.height + 14}" '
                              f'text-anchor="middle">{i * POINT}</text>')


def draw(curves, base, noise):
    """`curves`: for each system a list of losses for each seed, in the same order of seeds."""
    smoothed = {system: [smooth(losses) for losses in runs] for system, runs in curves.items()}
    every = [v for runs in smoothed.values() for run in runs for v in run]
    points = max(len(run) for runs in smoothed.values() for run in runs)
    upper = Panel(TOP + 12, 240, min(every), max(every), points, f"loss, means of {POINT} steps")
    apart = {system: [[a - b for a, b in zip(run, other)] for run, other in zip(runs, smoothed[base])]
             for system, runs in smoothed.items() if system != base and base in smoothed}
    sizes = sorted(abs(v) for runs in apart.values() for run in runs for v in run)
    limit = max([1.2 * sizes[int(0.99 * len(sizes))]] if sizes else [0], default=0)
    limit = max(limit, 0 if math.isnan(noise) else 1.2 * noise) or 1.0
    title = f"from {base} of the same seed; grey: its seeds' spread at the end"
    lower = Panel(upper.top + 240 + 34, 130, -limit, limit, points, title)
    if not math.isnan(noise):
        lower.band(noise)
    legend, lines = [], []
    for i, (system, runs) in enumerate(smoothed.items()):
        colour = COLOURS[i % len(COLOURS)]
        for panel, found, width in ((upper, runs, 1.2), (lower, apart.get(system, []), 0.8)):
            lines += [f'<g stroke="{colour}" stroke-width="{width}">',
                      *(f'<path d="{panel.curve(run)}"/>' for run in found), "</g>"] if found else []
        legend.append(f'<path d="M{WIDTH - 220} {TOP + 22 + 16 * i}h22" stroke="{colour}" stroke-width="3"/>'
                      f'<text x="{WIDTH - 192}" y="{TOP + 26 + 16 * i}">{html.escape(system)}</text>')
    lower.steps()
    height = lower.top + lower.height + 24
    parts = [part for panel in (lower, upper) for part in panel.parts]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        '<g fill="#222">', *parts, *legend, "</g>",
        '<g fill="none" stroke-linejoin="round">', *lines, "</g>",
        "</svg>", ""])
