"""One SVG: horizontal bars on a logarithmic scale, a panel for each column."""

import math
from html import escape

ROW, BAR, LEFT, PANEL, GAP, TOP = 26, 14, 150, 330, 70, 56


def svg(title, note, panels, names):
    """`panels`: (heading, {name: (low, middle, high)}); a name without values gets no bar."""
    height = TOP + ROW * len(names) + 46
    width = LEFT + len(panels) * (PANEL + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           text(8, 18, title, weight="bold", size=14),
           text(8, height - 10, note, fill="#555555", size=11)]
    for row, name in enumerate(names):
        out.append(text(LEFT - 8, TOP + ROW * row + 17, name, anchor="end"))
    for number, (heading, values) in enumerate(panels):
        out += panel(LEFT + number * (PANEL + GAP), heading, values, names)
    return "\n".join(out) + "\n</svg>\n"


def panel(left, heading, values, names):
    bottom = TOP + ROW * len(names)
    out = [text(left, TOP - 18, heading, weight="bold")]
    known = [value for triple in values.values() for value in triple if value > 0]
    if not known:
        return out
    # From the decade below the smallest, so that its bar has a length too.
    first = math.ceil(math.log10(min(known))) - 1
    last = max(math.ceil(math.log10(max(known))), first + 1)

    def place(value):
        return left + PANEL * (math.log10(max(value, 10.0 ** first)) - first) / (last - first)

    for decade in range(first, last + 1):
        x = place(10.0 ** decade)
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>')
        out.append(text(x, bottom + 14, short(10.0 ** decade), anchor="middle", fill="#555555", size=10))
    for row, name in enumerate(names):
        if name not in values:
            continue
        low, middle, high = values[name]
        y = TOP + ROW * row + (ROW - BAR) / 2
        ours = name.startswith("ridgeline")
        out.append(f'<rect x="{left}" y="{y:.1f}" width="{place(middle) - left:.1f}" height="{BAR}" '
                   f'fill="{"#2a6f97" if ours else "#a9bcc6"}"/>')
        centre = y + BAR / 2
        out.append(f'<line x1="{place(low):.1f}" y1="{centre}" x2="{place(high):.1f}" y2="{centre}" '
                   f'stroke="#222222"/>')
        out.append(text(place(high) + 5, y + 11, short(middle), size=11))
    return out


def short(value):
    """Three digits and a unit: 163k, 4.28, 0.05."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def text(x, y, words, anchor="start", weight="normal", fill="#111111", size=12):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'font-size="{size}" fill="{fill}">{escape(words)}</text>')
