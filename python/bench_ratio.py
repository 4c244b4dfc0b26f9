#!/usr/bin/env python3
"""Times covmatch against PyTorch, in turns, and prints a Markdown table of the ratios.

    cargo build --release
    python python/bench_ratio.py                                  # all four cases
    python python/bench_ratio.py --case nfnet_l0 --rounds 1       # a quick look
    python python/bench_ratio.py --out docs/bench-encoders.md     # also writes the page

A phase of an encoder is measured by processes of its own, so their peak memory is that phase's. Every way of running PyTorch
(peers.py) is measured alone; the fastest and covmatch, in f32 and where the machine has it in bf16, are then measured in turns
(turns.py says how). The ratio is covmatch / that variant, of memory covmatch / the leanest. Below 1 is faster (or smaller).
"""

import argparse
import os
import platform
import subprocess
import sys

import peers
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

PRECISIONS = ("f32", "bf16")


def variants(case):
    """PyTorch's ways of running the case: the layout of images is nothing to text, nor attention to images."""
    without = "channels_last" if "--tokens" in CASES[case] else "sdpa"
    return {name: flags for name, flags in peers.VARIANTS.items() if name != without}


def has(covmatch, precision):
    """Whether covmatch has the precision on this machine, as something small shows."""
    small = ["minilm-l3", "--batch", "1", "--tokens", "4", "--warmup", "0", "--iterations", "1", "--only", "forward"]
    bench = [covmatch, "bench", "encoder", *small, "--device", "flex", "--precision", precision]
    return subprocess.run(bench, capture_output=True).returncode == 0


def measure(args, case, phase):
    """What every PyTorch variant takes alone, and the reports of `args.rounds` rounds of covmatch and the fastest."""
    shared = [case, *CASES[case], "--only", phase, "--threads", str(args.threads)]
    shared += ["--warmup", "1", "--iterations", str(args.iterations)]
    peer = [sys.executable, os.path.join(ROOT, "python", "bench_peer.py"), *shared]
    commands = {name: [*peer, *flags] for name, flags in variants(case).items()}
    alone = peers.heats(f"{case} {phase}", commands, (phase, "peak_mb", "base_mb"), args.heats)
    fastest, bench = peers.least(alone, phase), [args.covmatch, "bench", "encoder", *shared, "--device", "flex", "--json"]
    ours = {precision: [*bench, "--precision", precision] for precision in PRECISIONS if has(args.covmatch, precision)}
    return alone, turns.rounds(f"{case} {phase}", {**ours, fastest: commands[fastest]}, args.rounds)


def row(case, phase, alone, reports, precision):
    """One line of the table: covmatch in `precision` against PyTorch."""
    low, ratio, high = turns.ratios(reports, precision, [peers.least(alone, phase)], phase)
    (peak, base), smallest = (reports[precision][-1][key] for key in ("peak_mb", "base_mb")), peers.least(alone, "peak_mb")
    least = alone[smallest]["peak_mb"]
    net = min(report["peak_mb"] - report["base_mb"] for report in alone.values() if report)
    seconds = dict.fromkeys(peers.VARIANTS, "") | dict(zip(alone, peers.cells(alone, phase, ".4f")))
    cells = [
        *(case, PHASES[phase], precision, f"{turns.median(reports[precision], phase):.4f}", *seconds.values()),
        f"**{ratio:.2f}** ({low:.2f}-{high:.2f})",
        *(f"{peak:.0f}", f"{least:.0f}", f"**{peak / least:.2f}**", f"{peak - base:.0f}", f"{net:.0f}"),
    ]
    return "| " + " | ".join(cells) + " |"


COLUMNS = [
    *("encoder", "phase", "covmatch in", "covmatch s", *(f"PyTorch {name} s" for name in peers.VARIANTS), "time ratio"),
    *("covmatch peak MB", "PyTorch peak MB", "memory ratio", "covmatch MB less start-up", "PyTorch MB less start-up"),
]
HEADER = "| " + " | ".join(COLUMNS) + " |\n|---|---|---|" + "--:|" * (len(COLUMNS) - 3)


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

- {peers.SUMMARY.format(count=args.heats)}
- Ratio: covmatch / the fastest PyTorch column; below 1 covmatch is faster, or smaller.
- {turns.summary(args.rounds)} A turn is one iteration to warm up and the median of {args.iterations}.
- Every phase includes the forward pass. `+ backward (input)` has frozen weights, `+ backward (weights)` an untracked \
input.
- Weights are generated and dropout is off. Batch norm uses its running statistics, and its scale and shift are \
trained. Text encoders are the transformer layers on embedded input, and the feature is the first token's output: of the \
last layer covmatch computes that token alone, transformers computes all of them.
- Peak MB is the peak resident memory of a process that runs that phase only; `less start-up` takes off what the \
process holds before it builds the network (for PyTorch: the interpreter and its libraries).

Cases:
{cases}

Machine: {cpu_model()} ({peers.extensions()}), {args.threads} threads, {platform.system()} {platform.machine()}. {ours} (vector level {simd}); \
Python {platform.python_version()}, {versions()}.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--phase", nargs="+", choices=PHASES, default=list(PHASES))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--heats", type=int, default=3, help="turns of every PyTorch variant alone")
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
            alone, reports = measure(args, case, phase)
            simd = reports["f32"][0]["simd"]
            rows += [row(case, phase, alone, reports, precision) for precision in PRECISIONS if precision in reports]
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
