#!/usr/bin/env python3
"""Times covmatch against PyTorch, in turns, and prints a Markdown table of the ratios.

    cargo build --release
    python python/bench_ratio.py                                  # all four cases
    python python/bench_ratio.py --case nfnet_l0 --rounds 1       # a quick look
    python python/bench_ratio.py --out docs/bench-encoders.md     # also writes the page

A phase of an encoder is measured by processes of its own, so their peak memory is that phase's: covmatch and every PyTorch
variant, in turns (turns.py says how). The ratio is covmatch / the better PyTorch variant. Below 1 is faster (or smaller).
"""

import argparse
import os
import platform
import subprocess
import sys

import turns

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PHASES = {"forward": "forward", "backward_input": "+ backward (input)", "backward_weights": "+ backward (weights)"}

# name -> arguments that both programs take
CASES = {
    "nfnet_l0": ["--batch", "8", "--size", "224"],
    "bert-base-uncased": ["--batch", "16", "--tokens", "32"],
    "efficientnet_lite0": ["--batch", "64", "--size", "96"],
    "minilm-l6": ["--batch", "128", "--tokens", "24"],
}

IMAGE_VARIANTS = {"eager": [], "channels_last": ["--channels-last"]}
TEXT_VARIANTS = {"eager": ["--attention", "eager"], "sdpa": ["--attention", "sdpa"]}


def variants(case):
    """PyTorch's two ways of running the case: memory layouts for images, attention implementations for text."""
    return TEXT_VARIANTS if "--tokens" in CASES[case] else IMAGE_VARIANTS


def measure(args, case, phase):
    """Contender -> reports of `args.rounds` rounds."""
    shared = [case, *CASES[case], "--only", phase, "--threads", str(args.threads)]
    shared += ["--warmup", "1", "--iterations", str(args.iterations)]
    commands = {"covmatch": [args.covmatch, "bench", "encoder", *shared, "--device", "flex", "--json"]}
    for variant, flags in variants(case).items():
        commands[variant] = [sys.executable, os.path.join(ROOT, "python", "bench_peer.py"), *shared, *flags]
    return turns.rounds(f"{case} {phase}", commands, args.rounds)


def row(case, phase, reports):
    """One line of the table."""
    seconds, base = ({name: turns.median(runs, key) for name, runs in reports.items()} for key in (phase, "base_mb"))
    peak = {name: runs[-1]["peak_mb"] for name, runs in reports.items()}
    peers = list(variants(case))
    low, ratio, high = turns.ratios(reports, "covmatch", peers, phase)
    smallest = min(peak[p] for p in peers)
    smallest_net = min(peak[p] - base[p] for p in peers)
    net = peak["covmatch"] - base["covmatch"]
    cells = [
        case,
        PHASES[phase],
        f"{seconds['covmatch']:.4f}",
        *(f"{seconds[p]:.4f}" for p in peers),
        f"**{ratio:.2f}** ({low:.2f}-{high:.2f})",
        f"{peak['covmatch']:.0f}",
        f"{smallest:.0f}",
        f"**{peak['covmatch'] / smallest:.2f}**",
        f"{net:.0f}",
        f"{smallest_net:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = """\
| encoder | phase | covmatch s | PyTorch eager s | PyTorch channels_last / sdpa s | time ratio \
| covmatch peak MB | PyTorch peak MB | memory ratio | covmatch MB less start-up | PyTorch MB less start-up |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def cpu_model():
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions():
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("torch", "timm", "transformers"))


def command(args):
    """The command that makes the page again."""
    words = ["python", "python/bench_ratio.py", "--rounds", args.rounds, "--iterations", args.iterations]
    words += ["--threads", args.threads, "--out", args.out]
    for flag, chosen, everything in (("--case", args.case, CASES), ("--phase", args.phase, PHASES)):
        if list(chosen) != list(everything):
            words += [flag, *chosen]
    return " ".join(map(str, words))


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > 0.3:
        print(f"warning: the machine is busy (load average {load:.1f}): times taken now mean little", file=sys.stderr)


def page(args, table, simd):
    """The whole document."""
    cases = "\n".join(f"- {case}: `{' '.join(flags)}`" for case, flags in CASES.items() if case in args.case)
    ours = subprocess.run([args.covmatch, "--version"], capture_output=True, text=True).stdout.strip()
    return f"""\
# Encoders: covmatch and PyTorch on the CPU

Made by `{command(args)}` after `cargo build --release`. Nobody edits the numbers by hand.

{table}

- Ratio: covmatch / the better of the two PyTorch columns; below 1 covmatch is faster, or smaller.
- {turns.summary(args.rounds)} A turn is one iteration to warm up and the median of {args.iterations}.
- Every phase includes the forward pass. `+ backward (input)` has frozen weights, `+ backward (weights)` an untracked \
input.
- Weights are generated and dropout is off. Batch norm uses its running statistics, and its scale and shift are \
trained. Text encoders are the transformer layers on embedded input, and the feature is the first token's output: of the \
last layer covmatch computes that token alone, transformers computes all of them.
- PyTorch's second column is the channels_last layout for images and `sdpa` attention for text.
- Peak MB is the peak resident memory of a process that runs that phase only; `less start-up` takes off what the \
process holds before it builds the network (for PyTorch: the interpreter and its libraries).

Cases:
{cases}

Machine: {cpu_model()}, {args.threads} threads, {platform.system()} {platform.machine()}. {ours} (vector level {simd}); \
Python {platform.python_version()}, {versions()}.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--phase", nargs="+", choices=PHASES, default=list(PHASES))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--covmatch", default=os.path.join(ROOT, "target", "release", "covmatch"), metavar="PROGRAM")
    parser.add_argument("--out", metavar="FILE", help="write the table and how it was made to FILE")
    args = parser.parse_args()
    if not os.path.exists(args.covmatch):
        raise SystemExit(f"error: {args.covmatch} does not exist: run `cargo build --release` first")

    warn_if_busy()
    rows, simd = [], "unknown"
    for case in args.case:
        for phase in args.phase:
            reports = measure(args, case, phase)
            simd = reports["covmatch"][0]["simd"]
            rows.append(row(case, phase, reports))
            print(rows[-1], file=sys.stderr, flush=True)
    table = "\n".join([HEADER, *rows])
    print(table)
    if args.out:
        partial = args.out + ".partial"
        with open(partial, "w") as out:
            out.write(page(args, table, simd))
        os.replace(partial, args.out)


if __name__ == "__main__":
    main()
