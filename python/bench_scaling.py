#!/usr/bin/env python3
"""How the time of a distillation step grows: one quantity at a time, around the shape that people without a GPU run.

    cargo build --release
    python python/bench_scaling.py                               # prints the table
    python python/bench_scaling.py --out docs/bench-scaling.md   # also writes the page and, beside it, the plot

Needs no PyTorch: it measures `covmatch bench step` alone.
"""

import argparse
import os

import turns
from bench_ratio import ROOT, cpu_model, warn_if_busy

BASE = {"threads": 2, "synthetic": 100, "real": 128, "size": 96}
SWEEPS = {
    "threads": ("threads", [1, 2]),
    "synthetic": ("synthetic pairs", [25, 50, 100, 200, 400]),
    "real": ("real pairs of a batch", [32, 64, 128, 256]),
    "size": ("pixels a side", [48, 64, 96, 128, 160]),
}
PARTS = {"real_s": "real forward", "synthetic_s": "synthetic forward and backward", "online_s": "online step"}
COLOURS = {"real_s": "#4878a8", "synthetic_s": "#e49444", "online_s": "#6a9f58"}


def command(args, point):
    flags = [part for name, value in point.items() for part in (f"--{name}", str(value))]
    once = ["--warmup", "0", "--iterations", "1", "--device", "flex", "--json"]
    return [args.covmatch, "bench", "step", *flags, *once]


def sweep(args, name, values):
    """Pairs of a value and the medians over rounds of its seconds and memory; the values are measured in turns."""
    commands = {value: command(args, {**BASE, name: value}) for value in values}
    reports = turns.rounds(f"scaling with {name}", commands, args.rounds)
    keys = [*PARTS, "step_s", "peak_mb"]
    return [(value, {key: turns.median(reports[value], key) for key in keys}) for value in values]


def table(results):
    lines = ["| varied | value | s/step | real forward | synthetic | online | peak MB |", "|---|--:|--:|--:|--:|--:|--:|"]
    for name, points in results.items():
        for value, of in points:
            seconds = " | ".join(f"{of[key]:.2f}" for key in ("step_s", *PARTS))
            lines.append(f"| {SWEEPS[name][0]} | {value} | {seconds} | {of['peak_mb']:.0f} |")
    return "\n".join(lines)


def plot(results):
    """Stacked bars of the parts of a step, one panel a sweep, as an SVG document."""
    width, height, left, bottom = 230, 200, 34, 44
    most = max(of["step_s"] for points in results.values() for _, of in points)
    shapes = []
    for panel, (name, points) in enumerate(results.items()):
        x0, room = panel * width + left, width - left - 10
        y = lambda seconds: height - bottom - seconds / most * (height - bottom - 26)
        ticks = [most * part for part in (0, 0.5, 1)]
        shapes += [
            f'<text x="{x0 - 5}" y="{y(t) + 4:.1f}" text-anchor="end">{t:.1f}</text>'
            f'<line x1="{x0}" x2="{x0 + room}" y1="{y(t):.1f}" y2="{y(t):.1f}" class="grid"/>'
            for t in ticks
        ]
        step = room / len(points)
        for i, (value, of) in enumerate(points):
            below = 0.0
            for part in PARTS:
                top = below + of[part]
                shapes.append(
                    f'<rect x="{x0 + i * step + step * 0.15:.1f}" width="{step * 0.7:.1f}" y="{y(top):.1f}" '
                    f'height="{y(below) - y(top):.1f}" fill="{COLOURS[part]}"/>'
                )
                below = top
            shapes.append(f'<text x="{x0 + (i + 0.5) * step:.1f}" y="{height - bottom + 14}" class="mid">{value}</text>')
        shapes.append(f'<text x="{x0 + room / 2:.1f}" y="{height - 14}" class="mid">{SWEEPS[name][0]}</text>')
    for i, (part, title) in enumerate(PARTS.items()):
        shapes.append(f'<rect x="{left + i * 230}" y="4" width="10" height="10" fill="{COLOURS[part]}"/>')
        shapes.append(f'<text x="{left + i * 230 + 15}" y="13">{title}, s</text>')
    style = "text{font:11px sans-serif;fill:#333}.mid{text-anchor:middle}.grid{stroke:#ddd}"
    body = "\n".join(shapes)
    size = f'width="{width * len(results)}" height="{height}" viewBox="0 0 {width * len(results)} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def page(args, results, picture):
    base = ", ".join(f"{name} {value}" for name, value in BASE.items())
    return f"""\
# How a distillation step scales

Made by `python python/bench_scaling.py --rounds {args.rounds} --out {args.out}` after \
`cargo build --release`.

![Seconds a step]({picture})

{table(results)}

- EfficientNet-Lite0 and MiniLM-L6, 24 tokens; {base}, and one of them varied.
- Medians of {args.rounds} rounds, in which the values of a row of bars are measured in turns.

Machine: {cpu_model()}.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    parser.add_argument("--out", metavar="FILE", help="write the page to FILE and the plot beside it")
    args = parser.parse_args()
    warn_if_busy()
    results = {name: sweep(args, name, values) for name, (_, values) in SWEEPS.items()}
    print(table(results))
    if args.out:
        picture = os.path.splitext(args.out)[0] + ".svg"
        for path, text in ((picture, plot(results)), (args.out, page(args, results, os.path.basename(picture)))):
            with open(path + ".partial", "w") as out:
                out.write(text)
            os.replace(path + ".partial", path)


if __name__ == "__main__":
    main()
