#!/usr/bin/env python3
"""Times a distillation step of covmatch against PyTorch, in turns, and prints a Markdown table of the ratios.

    cargo build --release
    python python/bench_step.py                          # all shapes
    python python/bench_step.py --shape C                # one of them
    python python/bench_step.py --out docs/bench-step.md # also writes the page

A: the paper's networks at 224 px; B: what people without a GPU run; C: the demo's. Every way of running PyTorch (peers.py)
is measured alone; the fastest and covmatch, in f32 and where the machine has it in bf16, are then measured in turns (turns.py
says how). The ratio is covmatch / that variant, of memory covmatch / the leanest. Below 1 is faster (or smaller).

The time ratios of every run with --out are kept beside the page, in a table of the same name (.csv), and the page lists them
all: machines differ, and so do runs on one machine.
"""

import argparse
import csv
import os
import subprocess
import sys

import peers
import turns
from bench_ratio import PRECISIONS, ROOT, cpu_model, has, versions, warn_if_busy

SHAPES = {
    "A": "--image-encoder nfnet_l0 --text-encoder bert-base-uncased --real 16 --synthetic 12 --size 224 --tokens 32",
    "B": "--image-encoder efficientnet_lite0 --text-encoder minilm-l6 --real 128 --synthetic 100 --size 96 --tokens 24",
    "C": "--image-encoder nfnet_scenes --text-encoder bert_scenes --real 128 --synthetic 50 --size 64 --tokens 16 --width 256",
}
SHARED = {"": [], ", shared real batch": ["--share-real-batch"]}

HEADER = [
    *("shape", "covmatch in", "covmatch s/step", "match", "online"),
    *(f"PyTorch {name}" for name in peers.VARIANTS),
    *("time ratio", "covmatch peak MB", "PyTorch peak MB", "memory ratio", "of SGEMM peak"),
]


def ours(args, shape):
    """(Words that follow the shape, precision) -> command, for the precisions that covmatch has on this machine."""
    commands, step = {}, [args.covmatch, "bench", "step", *shape, "--device", "flex", "--json"]
    for precision in filter(lambda precision: has(args.covmatch, precision), PRECISIONS):
        command = [*step, "--precision", precision]
        commands |= {(title, precision): [*command, *flags] for title, flags in SHARED.items()}
    return commands


def measure(args, shape):
    """What every PyTorch variant takes alone, and the reports of `args.rounds` rounds of covmatch and the fastest."""
    shared = [*SHAPES[shape].split(), "--threads", str(args.threads), "--warmup", "0", "--iterations", "1"]
    peer = [sys.executable, os.path.join(ROOT, "python", "bench_step_peer.py"), *shared]
    commands = {name: [*peer, *flags] for name, flags in peers.VARIANTS.items()}
    alone = peers.heats(f"step {shape}", commands, ("step_s", "peak_mb"), args.heats)
    fastest = peers.least(alone, "step_s")
    return alone, turns.rounds(f"step {shape}", {**ours(args, shared), fastest: commands[fastest]}, args.rounds)


def row(shape, alone, reports, contender):
    """One line of the table: `contender` against PyTorch."""
    (title, precision), of = contender, lambda key: turns.median(reports[contender], key)
    low, ratio, high = turns.ratios(reports, contender, [peers.least(alone, "step_s")], "step_s")
    smallest, peak = alone[peers.least(alone, "peak_mb")]["peak_mb"], reports[contender][-1]["peak_mb"]
    cells = [
        *(shape + title, precision),
        *(f"{of(key):.2f}" for key in ("step_s", "match_s", "online_s")),
        *peers.cells(alone, "step_s", ".2f"),
        f"**{ratio:.2f}** ({low:.2f}-{high:.2f})",
        *(f"{peak:.0f}", f"{smallest:.0f}", f"**{peak / smallest:.2f}**"),
        f"{100 * of('efficiency'):.0f} %",
    ]
    return "| " + " | ".join(cells) + " |"


# The columns of recorded runs.
RATIOS = {
    (shape, title, precision): shape + title + (" in bf16" if precision == "bf16" else "")
    for precision in PRECISIONS
    for shape in SHAPES
    for title in SHARED
}
COLUMNS = ["commit", "machine", "rounds", *RATIOS.values(), "extensions", "fastest PyTorch"]


def remember(args, found):
    """Adds the time ratios of this run, by row of the table, to the file of the runs before it. Returns all of them."""
    path = os.path.splitext(args.out)[0] + ".csv"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    run = {"commit": commit, "machine": cpu_model(), "rounds": args.rounds, "extensions": peers.extensions(), **found}
    runs = recorded(path) + [run]
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
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 4) + "---|---|"]
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
- {peers.SUMMARY.format(count=args.heats)}
- Ratio: covmatch / the fastest PyTorch column. {turns.summary(args.rounds)}
- Of the last text layer covmatch computes the first token alone. Convolutions of 3 x 3 with stride 1 and 32 to 128 channels
  a group are computed by Winograd's F(2 x 2, 3 x 3), 16 products for the definition's 36, or, with up to 64 channels a
  group and images large enough, F(4 x 4, 3 x 3), 36 for 144.
- `of SGEMM peak`: the encoders' arithmetic a second, as defined, against one large matrix product in the same process.

Shapes:
{shapes}

Machine: {cpu_model()} ({peers.extensions()}), {args.threads} threads. {versions()}.

## Recorded runs

Time ratios of the runs that were recorded since the branches are computed side by side, the latest last. Those that name
no fastest PyTorch are to the better of eager and channels_last in f32.

{runs}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--heats", type=int, default=3, help="turns of every PyTorch variant alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    parser.add_argument("--out", metavar="FILE", help="write the table and how it was made to FILE")
    args = parser.parse_args()
    warn_if_busy()
    lines, found, fastest = ["| " + " | ".join(HEADER) + " |", "|---|---|" + "--:|" * (len(HEADER) - 2)], {}, []
    for shape in args.shape:
        alone, reports = measure(args, shape)
        fastest.append(f"{shape}: {peers.least(alone, 'step_s')}")
        for title, precision in [contender for contender in reports if isinstance(contender, tuple)]:
            lines.append(row(shape, alone, reports, (title, precision)))
            ratio = turns.ratios(reports, (title, precision), [peers.least(alone, "step_s")], "step_s")[1]
            found[RATIOS[shape, title, precision]] = f"{ratio:.2f}"
    found["fastest PyTorch"] = ", ".join(fastest)
    table = "\n".join(lines)
    print(table)
    if args.out:
        text = page(args, table, runs_table(remember(args, found)))
        with open(args.out + ".partial", "w") as out:
            out.write(text)
        os.replace(args.out + ".partial", args.out)


if __name__ == "__main__":
    main()
