#!/usr/bin/env python3
"""Our loader beside PyTorch's on the same JPEG files, interleaved.

    cargo build --release -p covmatch --example data_bench
    python python/bench_data.py                           # prints the ratios
    python python/bench_data.py --out docs/bench-data.md  # also writes the page

Makes 200 JPEG files of 500 x 375 pixels (quality 90), then runs ours, ours from the cache, and the peer
(bench_data_peer.py, 2 workers) in turn, `--rounds` times, and prints medians and ratios of images per second of the
train transform at 224 pixels. A ratio is the median over rounds of covmatch / PyTorch: above 1 is faster.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from bench_ratio import ROOT, cpu_model, versions, warn_if_busy

COUNT, WIDTH, HEIGHT, QUALITY = 200, 500, 375, 90


def photograph(rng):
    """Soft clouds of colour, sharp shapes and grain: about as many bytes as a photograph."""
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((WIDTH, HEIGHT), Image.BICUBIC)
    draw = ImageDraw.Draw(coarse)
    for _ in range(25):
        x, y, w, h = rng.integers(0, WIDTH), rng.integers(0, HEIGHT), rng.integers(10, 120), rng.integers(10, 120)
        shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        shape((x, y, x + w, y + h), fill=tuple(int(c) for c in rng.integers(0, 256, 3)))
    image = np.asarray(coarse.filter(ImageFilter.GaussianBlur(0.7))).astype(np.float32)
    return Image.fromarray((image + rng.normal(0, 5, image.shape)).clip(0, 255).astype(np.uint8))


def make(folder):
    rng = np.random.default_rng(0)
    for index in range(COUNT):
        photograph(rng).save(folder / f"{index:03}.jpg", quality=QUALITY)
    return sum(file.stat().st_size for file in folder.glob("*.jpg")) / COUNT / 1024


def run(command):
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["images_per_second"]


def measure(args):
    """Images per second of each contender in each round, and the mean size of a file in kilobytes."""
    common = ["--size", 224, "--batch", args.batch, "--seconds", args.seconds]
    peer = pathlib.Path(__file__).parent / "bench_data_peer.py"
    with tempfile.TemporaryDirectory() as folder:
        pictures, cache = pathlib.Path(folder) / "pictures", pathlib.Path(folder) / "cache"
        pictures.mkdir()
        kilobytes = make(pictures)
        commands = {
            "ours": [args.ours, pictures, "--threads", 2, *common],
            "cache": [args.ours, pictures, "--threads", 2, "--cache", cache, *common],
            "peer": [sys.executable, peer, pictures, "--workers", 2, *common],
        }
        rates, names = {name: [] for name in commands}, list(commands)
        for turn in range(args.rounds):
            start = turn % len(names)
            for name in names[start:] + names[:start]:
                rates[name].append(run(commands[name]))
                print(f"{name:6} {rates[name][-1]:8.1f} images/s", file=sys.stderr)
    return rates, kilobytes


def table(rates):
    """A line a contender: median and range of the rate and of the ratio to PyTorch."""
    titles = {"ours": "covmatch", "cache": "covmatch, from its cache", "peer": "PyTorch DataLoader + PIL"}
    lines = ["| | images/s | slowest to fastest round | ratio | smallest to largest |", "|---|--:|--:|--:|--:|"]
    for name, title in titles.items():
        values = rates[name]
        ratios = [value / peer for value, peer in zip(values, rates["peer"])]
        cells = [title, f"{statistics.median(values):.0f}", f"{min(values):.0f} to {max(values):.0f}"]
        cells += [f"**{statistics.median(ratios):.2f}**", f"{min(ratios):.2f} to {max(ratios):.2f}"]
        lines.append("| " + " | ".join(cells if name != "peer" else [*cells[:3], "1", ""]) + " |")
    return "\n".join(lines)


def page(args, lines, kilobytes):
    return f"""\
# Reading pictures: covmatch and PyTorch

Made by `python python/bench_data.py --rounds {args.rounds} --seconds {args.seconds:g} --out {args.out}` after \
`cargo build --release -p covmatch --example data_bench`.

{lines}

- Both read the same {COUNT} JPEG files of {WIDTH} x {HEIGHT} pixels ({kilobytes:.0f} kB on average) and apply the protocol's
  train transform at 224 px: random resized crop (bicubic), flip, RandAugment, normalisation; batches of {args.batch}.
- covmatch uses 2 threads, the DataLoader 2 workers. The cache holds decoded pixels; its first filling is not timed.
- The contenders take turns, {args.rounds} rounds of {args.seconds:g} s each; a ratio is taken within a round, and the
  table has the median over rounds.

Machine: {cpu_model()}. {versions()}.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=os.path.join(ROOT, "target", "release", "examples", "data_bench"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", metavar="FILE", help="write the table and how it was made to FILE")
    args = parser.parse_args()
    warn_if_busy()
    rates, kilobytes = measure(args)
    lines = table(rates)
    print(lines)
    if args.out:
        with open(args.out + ".partial", "w") as out:
            out.write(page(args, lines, kilobytes))
        os.replace(args.out + ".partial", args.out)


if __name__ == "__main__":
    main()
