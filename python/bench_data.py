#!/usr/bin/env python3
"""Our loader beside PyTorch's on the same JPEG files, interleaved.

    cargo build --release -p covmatch --example data_bench
    python python/bench_data.py --ours target/release/examples/data_bench --rounds 5

Makes 200 JPEG files of 500 x 375 pixels (quality 90), then runs ours, ours from the cache, and the peer
(bench_data_peer.py, 2 workers) in turn, `--rounds` times, and prints medians and ratios of images per second of the
train transform at 224 pixels. Wants: ratio at least 2.0, from the cache at least 5.0.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True, help="the data_bench example")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
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
        rates = {name: [] for name in commands}
        for _ in range(args.rounds):
            for name, command in commands.items():
                rates[name].append(run(command))
                print(f"{name:6} {rates[name][-1]:8.1f} images/s", file=sys.stderr)
    median = {name: statistics.median(values) for name, values in rates.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(rates[name], rates["peer"])) for name in ("ours", "cache")
    }
    print(json.dumps({"kilobytes_per_jpeg": round(kilobytes, 1), "images_per_second": median, "rounds": rates,
                      "ratio": {name: round(value, 2) for name, value in ratios.items()}}))


if __name__ == "__main__":
    main()
