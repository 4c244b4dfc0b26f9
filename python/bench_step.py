#!/usr/bin/env python3
"""Times a distillation step of covmatch against PyTorch, in turns, and prints a Markdown table of the ratios.

    cargo build --release
    python python/bench_step.py                          # all shapes
    python python/bench_step.py --shape C                # one of them
    python python/bench_step.py --out docs/bench-step.md # also writes the page

A: the paper's networks at 224 px; B: what people without a GPU run; C: the demo's. Covmatch and both PyTorch layouts are
measured in turns (turns.py says how). The ratio is covmatch / the better PyTorch variant. Below 1 is faster (or smaller).

The time ratios of every run with --out are kept beside the page, in a table of the same name (.csv), and the page lists them
all: machines differ, and so do runs on one machine.
"""

import argparse
import csv
import os
import subprocess
import sys

import turns
from bench_ratio import ROOT, cpu_model, versions, warn_if_busy

SHAPES = {
    "A": "--image-encoder nfnet_l0 --text-encoder bert-base-uncased --real 16 --synthetic 12 --size 224 --tokens 32",
    "B": "--image-encoder efficientnet_lite0 --text-encoder minilm-l6 --real 128 --synthetic 100 --size 96 --tokens 24",
    "C": "--image-encoder nfnet_scenes --text-encoder bert_scenes --real 128 --synthetic 50 --size 64 --tokens 16 --width 256",
}
VARIANTS = {"eager": [], "channels_last": ["--channels-last"]}
OURS = {"covmatch": "", "shared": ", shared real batch"}

HEADER = """\
| shape | covmatch s/step | match | online | PyTorch eager | PyTorch channels_last | time ratio \
| covmatch peak MB | PyTorch peak MB | memory ratio | of SGEMM peak |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def measure(args, shape):
    """Contender -> reports of `args.rounds` rounds."""
    shared = [*SHAPES[shape].split(), "--threads", str(args.threads), "--warmup", "0", "--iterations", "1"]
    peer = [sys.executable, os.path.join(ROOT, "python", "bench_step_peer.py"), *shared]
    ours = [args.covmatch, "bench", "step", *shared, "--device", "flex", "--json"]
    commands = {"covmatch": ours, "shared": [*ours, "--share-real-batch"]}
    commands |= {variant: [*peer, *flags] for variant, flags in VARIANTS.items()}
    return turns.rounds(f"step {shape}", commands, args.rounds)


def row(shape, reports, ours):
    """One line of the table: `ours` against PyTorch."""
    of = lambda name, key: turns.median(reports[name], key)
    peak = lambda name: reports[name][-1]["peak_mb"]
    low, ratio, high = turns.ratios(reports, ours, VARIANTS, "step_s")
    smallest = min(map(peak, VARIANTS))
    cells = [
        shape + OURS[ours],
        *(f"{of(ours, key):.2f}" for key in ("step_s", "match_s", "online_s")),
        *(f"{of(variant, 'step_s'):.2f}" for variant in VARIANTS),
        f"**{ratio:.2f}** ({low:.2f}-{high:.2f})",
        f"{peak(ours):.0f}",
        f"{smallest:.0f}",
        f"**{peak(ours) / smallest:.2f}**",
        f"{100 * of(ours, 'efficiency'):.0f} %",
    ]
    return "| " + " | ".join(cells) + " |"


# The columns of recorded runs.
COLUMNS = ["commit", "machine", "rounds", *(shape + title for shape in SHAPES for title in OURS.values())]


def remember(args, found):
    """Adds the time ratios of this run, by row of the table, to the file of the runs before it. Returns all of them."""
    path = os.path.splitext(args.out)[0] + ".csv"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    runs = recorded(path) + [{"commit": commit, "machine": cpu_model(), "rounds": args.rounds, **found}]
    with open(path + ".partial", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(runs)
    os.replace(path + ".partial", path)
    return runs


def recorded(path):
    """The runs in the file `path`; none if there is no such file."""
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def runs_table(runs):
    """Recorded runs as Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    return "\n".join(lines + ["| " + " | ".join(str(run.get(column) or "") for column in COLUMNS) + " |" for run in runs])


def page(args, table, runs):
    shapes = "\n".join(f"- {shape}: `{SHAPES[shape]}`" for shape in args.shape)
    return f"""\
# A distillation step: covmatch and PyTorch on the CPU

Made by `python python/bench_step.py --rounds {args.rounds} --threads {args.threads} \
--out {args.out}` after `cargo build --release`.

{table}

- The same step on both sides: forward of a real batch, forward and backward of the synthetic pairs, SGD on the pairs, and
  an online InfoNCE step on another real batch with dropout on. Generated weights and batches; every token is attended to.
- `shared real batch` is `distill.share_real_batch`: one forward pass of one real batch serves the statistics and the online
  step, so it is another step than PyTorch's, with less arithmetic.
- Ratio: covmatch / the better PyTorch column. {turns.summary(args.rounds)}
- Of the last text layer covmatch computes the first token alone. Convolutions of 3 x 3 with stride 1 and 32 to 128 channels
  a group are computed by Winograd's F(2 x 2, 3 x 3), 16 products for the definition's 36, or, with up to 64 channels a
  group and images large enough, F(4 x 4, 3 x 3), 36 for 144.
- `of SGEMM peak`: the encoders' arithmetic a second, as defined, against one large matrix product in the same process.

Shapes:
{shapes}

Machine: {cpu_model()}, {args.threads} threads. {versions()}.

## Recorded runs

Time ratios of the runs that were recorded since the branches are computed side by side, the latest last.

{runs}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    parser.add_argument("--out", metavar="FILE", help="write the table and how it was made to FILE")
    args = parser.parse_args()
    warn_if_busy()
    lines, found = [HEADER], {}
    for shape in args.shape:
        reports = measure(args, shape)
        for ours, title in OURS.items():
            lines.append(row(shape, reports, ours))
            found[shape + title] = f"{turns.ratios(reports, ours, VARIANTS, 'step_s')[1]:.2f}"
    table = "\n".join(lines)
    print(table)
    if args.out:
        text = page(args, table, runs_table(remember(args, found)))
        with open(args.out + ".partial", "w") as out:
            out.write(text)
        os.replace(args.out + ".partial", args.out)


if __name__ == "__main__":
    main()
