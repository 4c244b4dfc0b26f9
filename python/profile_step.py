#!/usr/bin/env python3
"""Where the CPU time of a distillation step goes, by kind of kernel, for one or more builds of covmatch side by side.

    cargo build --release
    python python/profile_step.py                                                  # this build
    python python/profile_step.py before=old/covmatch after=target/release/covmatch --out docs/profile.md

Needs Linux's `perf`. Samples of building the networks are counted too; with many iterations they matter little.
"""

import argparse
import os
import re
import subprocess
import tempfile

from bench_ratio import ROOT, cpu_model
from bench_step import SHAPES

# kind -> symbols; the first that matches counts
KINDS = {
    "matrix products": r"gemm::micro|gemm::blocked|gemm_f32|gemm::bf16::(rows|vectors|amx|tiled)",
    "Winograd's transforms": r"conv2d::winograd",
    "direct convolution": r"conv2d::direct",
    "depthwise convolution": r"conv2d::depthwise",
    "packing and copies": r"gemm::pack|gemm::bf16::(pack|gather)|memmove|memcpy|memset",
    "activations": r"activation::",
    "attention": r"attention::",
    "layer norm": r"layer_norm::",
    "gates, pooling, biases": r"gated_residual|pool::|add_rows|sum_rows|mask_and_add|add::",
    "weight standardisation": r"standardize::",
    "dropout": r"dropout",
    "SGD": r"sgd::",
    "burn's own operations": r"macerator|burn_",
    "kernel of the system": r"\[k\]",
}


def symbols(program, shape, iterations):
    """(percent, symbol) of every symbol that perf saw."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        bench = [program, "bench", "step", *SHAPES[shape].split(), "--iterations", str(iterations), "--threads", "2"]
        subprocess.run(["perf", "record", "-q", "-o", data, *bench, "--device", "flex"], check=True, capture_output=True)
        report = ["perf", "report", "-i", data, "--stdio", "-g", "none", "--no-children", "--percent-limit", "0.01"]
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    lines = (re.match(r"\s*([\d.]+)%\s+(.*)", line) for line in text.splitlines())
    return [(float(line[1]), line[2]) for line in lines if line]


def by_kind(found):
    shares = dict.fromkeys([*KINDS, "everything else"], 0.0)
    for percent, symbol in found:
        kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, symbol)), "everything else")
        shares[kind] += percent
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = f"covmatch={os.path.join(ROOT, 'target', 'release', 'covmatch')}"
    parser.add_argument("builds", nargs="*", default=[default], metavar="NAME=PROGRAM")
    parser.add_argument("--shape", choices=SHAPES, default="A")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--note", default="", help="what the builds are")
    parser.add_argument("--out", metavar="FILE", help="write the page to FILE")
    args = parser.parse_args()
    builds = dict(build.split("=", 1) for build in args.builds)
    shares = {name: by_kind(symbols(program, args.shape, args.iterations)) for name, program in builds.items()}
    kinds = sorted([*KINDS, "everything else"], key=lambda kind: -max(of[kind] for of in shares.values()))
    lines = ["| % of CPU samples | " + " | ".join(builds) + " |", "|---|" + "--:|" * len(builds)]
    lines += ["| " + " | ".join([kind, *(f"{of[kind]:.1f}" for of in shares.values())]) + " |" for kind in kinds]
    table = "\n".join(lines)
    print(table)
    if args.out:
        with open(args.out, "w") as out:
            out.write(
                f"# Where a distillation step spends its time\n\nMade by `python python/profile_step.py --shape {args.shape} "
                f"--iterations {args.iterations}` with two builds. {args.note}\n\n{table}\n\n"
                f"Building the networks is counted too, most of it in the system's kernel.\n\nShape: `{SHAPES[args.shape]}`.\nMachine: {cpu_model()}, 2 threads.\n"
            )


if __name__ == "__main__":
    main()
