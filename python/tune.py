#!/usr/bin/env python3
"""Tries learning rates of the methods that learn pairs, on the validation split, and prints a Markdown table.

    python python/tune.py presets/compare-flickr8k.toml --out runs/tune
    python python/tune.py presets/compare-flickr8k.toml --out runs/tune --method lors --rates 0.005 0.015 --set experts.count=2

Every method gets the same rates (of pixels and captions alike, relative to them), pairs, steps and models. A set is judged
by the average recall on the validation split after the last epoch; the test split is not looked at. What is in the folder
already is not made again.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def covmatch(args, *command):
    done = subprocess.run([args.covmatch, *command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: covmatch {' '.join(command)} failed; its message is above")
    return done.stdout


def settings(args, method):
    """The section `[compare.set]` of the configuration for `method`, then what the command line sets."""
    own = ["distill.method=" + method, *configured(args.config).get(method, []), *args.set]
    return [word for pair in own for word in ("--set", pair)]


def configured(path):
    with open(path, "rb") as file:
        return tomllib.load(file).get("compare", {}).get("set", {})


def validation(args, method, rate):
    """Mean validation recall of the set of `method` at `rate`, which is made if it is not there."""
    folder = os.path.join(args.out, f"{method}-{rate}")
    result = os.path.join(folder, "validation.json")
    if not os.path.exists(result):
        if os.path.exists(os.path.join(folder, "run.toml")):
            covmatch(args, "distill", "--resume", folder)
        else:
            rates = ["--set", f"distill.lr_img={rate}", "--set", f"distill.lr_txt={rate}"]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--method", nargs="+", default=["covmatch", "mtt-vl", "lors"])
    parser.add_argument("--rates", nargs="+", default=["0.005", "0.015", "0.045"])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE")
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    lines = ["| method | " + " | ".join(args.rates) + " |", "|---|" + "--:|" * len(args.rates)]
    for method in args.method:
        found = []
        for rate in args.rates:
            found.append(validation(args, method, rate))
            print(f"{method} at {rate}: {found[-1]:.2f}", file=sys.stderr, flush=True)
        cells = [f"**{value:.2f}**" if value == max(found) else f"{value:.2f}" for value in found]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
