#!/usr/bin/env python3
"""Chooses the evaluation's rates on the validation split, with a set of real pairs alone, and prints a Markdown table.

    covmatch select random presets/compare-flickr8k.toml --out runs/protocol/random-100
    python python/choose_protocol.py runs/protocol/random-100 --out docs/results/flickr8k/protocol.jsonl

Every combination of the encoders' rate, the heads' rate, epochs of warm-up and bound on the gradient trains some models on
the pairs; they are judged by the mean and the standard deviation of the average recall on the validation split after the last
epoch. The best few are then trained with more models, and the best of these is the protocol. The test split is not looked at.

Each candidate is a line of the file, which the same command goes on with after an interruption.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIELDS = {
    "rates.lr_encoder": ["0.001", "0.003", "0.01"],
    "rates.lr_head": ["0.03", "0.1"],
    "warmup": ["0", "5"],
    "clip": ["none", "1"],
}


def settings(candidate):
    """The candidate as arguments of `covmatch evaluate`; a bound of none is left out."""
    pairs = [(field, value) for field, value in candidate.items() if value != "none"]
    return [word for field, value in pairs for word in ("--set", f"evaluate.{field}={value}")]


def validations(args, candidate, runs):
    """The average recall on the validation split, in percent, of each model."""
    last = ["--set", "evaluate.val_every=1000000", "--runs", str(runs), "--json"]
    command = [args.covmatch, "evaluate", args.folder, *settings(candidate), *last, *args.options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)} failed; its message is above")
    runs = json.loads(done.stdout)["evaluation"]["runs"]
    return [sum(run["validation"]["ir"] + run["validation"]["tr"]) / 6 for run in runs]


def recorded(path):
    """What is on record: a candidate's values and what its models reached."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return {tuple(line["candidate"].values()): line["validation"] for line in lines}


def record(path, found):
    """Writes all candidates, whole or not at all."""
    lines = [{"candidate": dict(zip(FIELDS, values)), "validation": reached} for values, reached in found.items()]
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path) or ".", delete=False) as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    os.replace(file.name, path)


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def table(found, chosen):
    lines = ["| encoder rate | head rate | warm-up | clip | models | val Avg |", "|--:|--:|--:|--:|--:|--:|"]
    for values, reached in sorted(found.items(), key=lambda item: -statistics.mean(item[1])):
        mean = f"{statistics.mean(reached):.2f} ± {spread(reached):.2f}"
        mean = f"**{mean}**" if values == chosen else mean
        lines.append("| " + " | ".join([*values, str(len(reached)), mean]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a set of real pairs")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--first", type=int, default=2, help="models of every candidate")
    parser.add_argument("--best", type=int, default=4, help="candidates that get more models")
    parser.add_argument("--models", type=int, default=5, help="models of the best candidates")
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="further arguments of covmatch evaluate")
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    args = parser.parse_args()
    found = recorded(args.out)

    def tried(values, models):
        if len(found.get(values, [])) < models:
            found[values] = validations(args, dict(zip(FIELDS, values)), models)
            record(args.out, found)
        print(values, [f"{value:.2f}" for value in found[values]], file=sys.stderr, flush=True)

    for values in itertools.product(*FIELDS.values()):
        tried(values, args.first)
    best = sorted(found, key=lambda values: -statistics.mean(found[values][: args.first]))[: args.best]
    for values in best:
        tried(values, args.models)
    # A mean that varies less is preferred: one standard deviation of the mean is what chance may have added.
    lowest = lambda values: statistics.mean(found[values]) - spread(found[values]) / args.models**0.5
    print(table(found, max(best, key=lowest)))


if __name__ == "__main__":
    main()
