"""The ways in which PyTorch is run beside covmatch, and the vector extensions of the machine that decide between them."""

import statistics
import sys

import turns

CHANNELS_LAST, SDPA = ["--channels-last"], ["--attention", "sdpa"]
LEANEST = [*CHANNELS_LAST, *SDPA]

# name -> flags of bench_peer.py and bench_step_peer.py; each adds to the one before what people add, one by one
VARIANTS = {
    "eager": ["--attention", "eager"],
    "channels_last": [*CHANNELS_LAST, "--attention", "eager"],
    "sdpa": LEANEST,
    "bf16": [*LEANEST, "--autocast"],
    "compiled": [*LEANEST, "--compile"],
    "compiled bf16": [*LEANEST, "--compile", "--autocast"],
}

EXTENSIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")

SUMMARY = """\
PyTorch's columns: as it is; channels-last images; and with `sdpa` attention, in f32, under `torch.autocast("cpu", \
dtype=torch.bfloat16)`, by `torch.compile`, and by both. Each is measured alone first, the median of {count} turns after one that \
is not counted; the fastest of them, whichever it is, is the one that covmatch is measured against in turns. The memory ratio \
is to the leanest."""


def extensions():
    """Those vector extensions of the machine that matter here."""
    try:
        with open("/proc/cpuinfo") as info:
            flags = next(line.split(":", 1)[1].split() for line in info if line.startswith("flags"))
    except (OSError, StopIteration):
        return "unknown"
    return " ".join(name for name in EXTENSIONS if name in flags) or "none"


def heats(what, commands, keys, count=3):
    """Name -> medians of `keys`, of commands measured alone one after the other; None of those that fail."""
    found = {}
    for name, command in commands.items():
        print(f"{what}: PyTorch {name} alone", file=sys.stderr, flush=True)
        try:
            contender = turns.Contender(command)
            reports = [contender.turn() for _ in range(count + 1)][1:]
            contender.end()
            found[name] = {key: statistics.median(report[key] for report in reports) for key in keys}
        except SystemExit as failure:
            print(failure, file=sys.stderr, flush=True)
            found[name] = None
    if not any(found.values()):
        raise SystemExit("error: no variant of PyTorch runs")
    return found


def least(found, key):
    """The name of the variant with the least `key`."""
    return min((name for name in found if found[name]), key=lambda name: found[name][key])


def cells(found, key, form):
    """One cell for every variant."""
    return [format(report[key], form) if report else "fails" for report in found.values()]
