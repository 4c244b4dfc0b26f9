#!/usr/bin/env python3
"""Times a distillation step of two or more builds of covmatch in turns, and prints a Markdown table of the ratios to the first.

    python python/bench_builds.py before=old/covmatch after=target/release/covmatch --shape B
    python python/bench_builds.py before=old/covmatch after=target/release/covmatch --shape B --shared --rounds 7
"""

import argparse

import turns
from bench_ratio import warn_if_busy
from bench_step import SHAPES

PHASES = {"step_s": "step", "match_s": "match", "online_s": "online"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--shape", choices=SHAPES, default="B")
    parser.add_argument("--shared", action="store_true", help="one real batch for both (distill.share_real_batch)")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warn_if_busy()
    builds = dict(build.split("=", 1) for build in args.builds)
    step = ["bench", "step", *SHAPES[args.shape].split(), "--threads", str(args.threads), "--device", "flex", "--json"]
    step += ["--warmup", "0", "--iterations", "1", *(["--share-real-batch"] if args.shared else [])]
    reports = turns.rounds(f"step {args.shape}", {name: [program, *step] for name, program in builds.items()}, args.rounds)
    first = next(iter(builds))
    print("| build | " + " | ".join(f"{title}, s | ratio" for title in PHASES.values()) + " |")
    print("|---|" + "--:|--:|" * len(PHASES))
    for name in builds:
        cells = []
        for phase in PHASES:
            low, ratio, high = turns.ratios(reports, name, [first], phase)
            cells += [f"{turns.median(reports[name], phase):.2f}", f"{ratio:.2f} ({low:.2f}-{high:.2f})"]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
