#!/usr/bin/env python3
"""Times a distillation step of covmatch against PyTorch, in turns, and prints a Markdown table of the ratios.

    cargo build --release
    python python/bench_step.py                          # both shapes
    python python/bench_step.py --out docs/bench-step.md # also writes the page

A: the paper's networks at 224 px; B: what people without a GPU run. Each measurement is a process of its own. A round
runs covmatch and both PyTorch layouts once, in an order that turns with the round; the table has the median over rounds.
The ratio of times is that of the fastest rounds, as in bench_ratio.py: covmatch / the better PyTorch variant. Below 1 is
faster (or smaller). The ratio of the medians stands beside it.
"""

import argparse
import os
import statistics
import sys

import quiet
from bench_ratio import ROOT, cpu_model, versions, warn_if_busy

SHAPES = {
    "A": "--image-encoder nfnet_l0 --text-encoder bert-base-uncased --real 16 --synthetic 12 --size 224 --tokens 32",
    "B": "--image-encoder efficientnet_lite0 --text-encoder minilm-l6 --real 128 --synthetic 100 --size 96 --tokens 24",
}
VARIANTS = {"eager": [], "channels_last": ["--channels-last"]}

HEADER = """\
| shape | covmatch s/step | match | online | PyTorch eager | PyTorch channels_last | time ratio | of medians \
| covmatch peak MB | PyTorch peak MB | memory ratio | of SGEMM peak |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def measure(args, shape):
    """Runs every contender `args.rounds` times. Returns contender -> list of reports."""
    shared = [*SHAPES[shape].split(), "--threads", str(args.threads), "--iterations", str(args.iterations)]
    peer = [sys.executable, os.path.join(ROOT, "python", "bench_step_peer.py"), *shared]
    ours = [args.covmatch, "bench", "step", *shared, "--device", "flex", "--json"]
    commands = {"covmatch": ours, "shared": [*ours, "--share-real-batch"]}
    commands |= {variant: [*peer, *flags] for variant, flags in VARIANTS.items()}

    def show(name, report):
        print(f"{shape} {name}: {report['step_s']:.3f} s, {report['peak_mb']:.0f} MB", file=sys.stderr)

    return quiet.rounds(f"step {shape}", commands, args, show)


def row(shape, reports, ours, title):
    """One line of the table: `ours` against PyTorch."""
    of = lambda name, key: statistics.median(report[key] for report in reports[name])
    best = lambda name: min(report["step_s"] for report in reports[name])
    smallest = min(of(variant, "peak_mb") for variant in VARIANTS)
    cells = [
        f"{shape}{title}",
        *(f"{of(ours, key):.2f}" for key in ("step_s", "match_s", "online_s")),
        *(f"{of(variant, 'step_s'):.2f}" for variant in VARIANTS),
        f"**{best(ours) / min(map(best, VARIANTS)):.2f}**",
        f"{of(ours, 'step_s') / min(of(variant, 'step_s') for variant in VARIANTS):.2f}",
        f"{of(ours, 'peak_mb'):.0f}",
        f"{smallest:.0f}",
        f"**{of(ours, 'peak_mb') / smallest:.2f}**",
        f"{100 * of(ours, 'efficiency'):.0f} %",
    ]
    return "| " + " | ".join(cells) + " |"


def page(args, table):
    shapes = "\n".join(f"- {shape}: `{flags}`" for shape, flags in SHAPES.items())
    return f"""\
# A distillation step: covmatch and PyTorch on the CPU

Made by `python python/bench_step.py --rounds {args.rounds} --iterations {args.iterations} --threads {args.threads} \
--out {args.out}` after `cargo build --release`.

{table}

- The same step on both sides: forward of a real batch, forward and backward of the synthetic pairs, SGD on the pairs, and
  an online InfoNCE step on another real batch with dropout on. Generated weights and batches; every token is attended to.
- `shared real batch` is `distill.share_real_batch`: one forward pass of one real batch serves the statistics and the online
  step, so it is another step than PyTorch's, with less arithmetic.
- Ratio: covmatch / the better PyTorch column; that of times is of each program's fastest round, and beside it of medians. Of the last text layer covmatch computes the first token alone.
- `of SGEMM peak`: the encoders' arithmetic a second against one large matrix product in the same process.
- {quiet.summary()}

Shapes:
{shapes}

Machine: {cpu_model()}, {args.threads} threads. {versions()}.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    quiet.add_arguments(parser)
    parser.add_argument("--out", metavar="FILE", help="write the table and how it was made to FILE")
    args = parser.parse_args()
    warn_if_busy()
    lines = [HEADER]
    for shape in SHAPES:
        reports = measure(args, shape)
        lines += [row(shape, reports, "covmatch", ""), row(shape, reports, "shared", ", shared real batch")]
    table = "\n".join(lines)
    print(table)
    if args.out:
        with open(args.out + ".partial", "w") as out:
            out.write(page(args, table))
        os.replace(args.out + ".partial", args.out)


if __name__ == "__main__":
    main()
