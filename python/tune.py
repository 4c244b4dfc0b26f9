#!/usr/bin/env python3
"""Tries learning rates of the methods that learn pairs, on the validation split, and prints a Markdown table.

    python python/tune.py presets/compare-flickr8k.toml --out runs/tune
    python python/tune.py presets/compare-flickr8k.toml --out runs/tune --method lors --rates 0.005 0.015 --set experts.count=2

Every method gets the same candidates, pairs, steps and models: first rates of pixels and captions alike, relative to them,
then the best of these with the pixels' rate several times as high. A set is judged by the average recall on the validation
split after the last epoch; the test split is not looked at. What is in the folder already is not made again. A candidate
whose pairs diverge has failed, and the others go on.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Failed(Exception):
    """A call of covmatch failed; its message is on stderr."""


def covmatch(args, *command):
    done = subprocess.run([args.covmatch, *command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed(f"covmatch {' '.join(command)} failed; its message is above")
    return done.stdout


def settings(args, method):
    """The section `[compare.set]` of the configuration for `method`, then what the command line sets."""
    own = ["distill.method=" + method, *configured(args.config).get(method, []), *args.set]
    return [word for pair in own for word in ("--set", pair)]


def configured(path):
    with open(path, "rb") as file:
        return tomllib.load(file).get("compare", {}).get("set", {})


def validation(args, method, pixels, captions):
    """Mean validation recall of the set of `method` at these rates, which is made if it is not there."""
    name = pixels if pixels == captions else f"{pixels}-{captions}"
    folder = os.path.join(args.out, f"{method}-{name}")
    result = os.path.join(folder, "validation.json")
    if not os.path.exists(result):
        if os.path.exists(os.path.join(folder, "run.toml")):
            covmatch(args, "distill", "--resume", folder)
        else:
            rates = ["--set", f"distill.lr_image={pixels}", "--set", f"distill.lr_text={captions}"]
            size = ["--set", f"distill.pairs={args.pairs}", "--set", f"distill.rounds={args.rounds}"]
            covmatch(args, "distill", args.config, *settings(args, method), *rates, *size, "--out", folder)
        # Validated after the last epoch alone.
        last = ["--set", "evaluate.val_every=1000000", "--runs", str(args.runs), "--json"]
        report = covmatch(args, "evaluate", folder, *last)
        with open(result + ".partial", "w") as file:
            file.write(report)
        os.replace(result + ".partial", result)
    with open(result) as file:
        runs = json.load(file)["evaluation"]["runs"]
    recalls = [run["validation"]["ir"] + run["validation"]["tr"] for run in runs]
    return sum(map(sum, recalls)) / (6 * len(recalls))


def tried(args, method):
    """What each candidate reaches, by its heading in the table; minus infinity if its pairs diverged."""
    found = {}

    def attempt(heading, pixels, captions):
        try:
            found[heading] = validation(args, method, pixels, captions)
        except Failed as failure:
            print(failure, file=sys.stderr)
            found[heading] = -math.inf
        print(f"{method}, pixels {pixels}, captions {captions}: {found[heading]:.2f}", file=sys.stderr, flush=True)

    for rate in args.rates:
        attempt(rate, rate, rate)
    best = max(args.rates, key=found.get)
    for factor in args.factors:
        attempt(f"best, pixels x {factor}", f"{float(best) * float(factor):g}", best)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--method", nargs="+", default=["covmatch", "mtt-vl", "lors"])
    parser.add_argument("--rates", nargs="+", default=["0.005", "0.015", "0.045"])
    parser.add_argument("--factors", nargs="*", default=["3", "9"], help="of the pixels' rate, at the best of the rates")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE")
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    found = {method: tried(args, method) for method in args.method}
    headings = list(found[args.method[0]])
    lines = ["| method | " + " | ".join(headings) + " |", "|---|" + "--:|" * len(headings)]
    for method, values in found.items():
        best = max(values.values())
        if best == -math.inf:
            raise SystemExit(f"error: every candidate of {method} failed; the messages are above")
        shown = lambda value: "failed" if value == -math.inf else f"{value:.2f}"
        cells = [f"**{shown(value)}**" if value == best else shown(value) for value in values.values()]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
