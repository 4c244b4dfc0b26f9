"""Measurements on a machine that is shared: those during which another guest had the CPU are repeated.

A hypervisor tells how much CPU time it gave to others ("steal" in /proc/stat). A measurement counts as quiet if that was
at most `LIMIT` of all CPU time while it ran. The rule looks at the machine alone, not at what was measured, and it is the
same for every program. On a system that does not tell, every measurement is quiet.
"""

import json
import subprocess
import sys
import time

LIMIT = 0.02
TRIES = 8
PAUSE = 5  # seconds before a repetition

kept, repeated, disturbed = 0, 0, 0


def cpu_times():
    """(stolen, all) CPU time since the machine started, in ticks."""
    try:
        with open("/proc/stat") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return ticks[7], sum(ticks)


def once(command):
    """The JSON object that `command` prints last."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)} failed:\n{done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run(command):
    """The report of `command`'s first quiet run, or of the quietest of `TRIES`."""
    global kept, repeated, disturbed
    kept += 1
    tries = []
    for _ in range(TRIES):
        stolen, total = cpu_times()
        report = once(command)
        stolen, total = (after - before for after, before in zip(cpu_times(), (stolen, total)))
        tries.append((stolen / max(total, 1), report))
        if tries[-1][0] <= LIMIT:
            return report
        repeated += 1
        print(f"repeated: {100 * tries[-1][0]:.0f} % of the CPU went to others", file=sys.stderr)
        time.sleep(PAUSE)
    disturbed += 1
    return min(tries, key=lambda attempt: attempt[0])[1]


def summary():
    """What a page says about it."""
    return (
        f"A measurement during which more than {100 * LIMIT:.0f} % of the CPU time went to other guests of the host was "
        f"repeated, up to {TRIES - 1} times: {repeated} repetitions for {kept} measurements; "
        f"{disturbed} stayed disturbed."
    )
