"""Programs measured in turns on a machine that is shared: rounds during which another guest had the CPU are repeated.

A hypervisor tells how much CPU time it gave to others ("steal" in /proc/stat). A measurement counts as quiet if that was
at most `LIMIT` of all CPU time while it ran. The rule looks at the machine alone, not at what was measured, and it is the
same for every program: a round in which one program was disturbed is measured again as a whole. On a system that does not
tell, every round is quiet.

With `--state FILE` quiet rounds are kept in FILE, and a second call goes on from there; with `--give-up` the first round
that is disturbed twice ends the call, so that a script may wait for a better hour.
"""

import json
import os
import subprocess
import sys
import time

LIMIT = 0.05
TRIES = 8
PAUSE = 5  # seconds before a repetition
GAVE_UP = 75  # exit status

counts = {"rounds": 0, "repetitions": 0, "disturbed": 0}


def add_arguments(parser):
    parser.add_argument("--state", metavar="FILE", help="keep quiet rounds in FILE and go on from them")
    parser.add_argument("--give-up", action="store_true", help="end, with status 75, when a round is disturbed twice")


def cpu_times():
    """(stolen, all) CPU time since the machine started, in ticks."""
    try:
        with open("/proc/stat") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return ticks[7], sum(ticks)


def once(command):
    """The JSON object that `command` prints last, and the share of the CPU time that others had meanwhile."""
    stolen, total = cpu_times()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)} failed:\n{done.stderr.strip()}")
    stolen, total = (after - before for after, before in zip(cpu_times(), (stolen, total)))
    return json.loads(done.stdout.strip().splitlines()[-1]), stolen / max(total, 1)


def one_round(commands, names, give_up, show):
    """Name -> report of the first quiet round, or of the quietest of `TRIES`."""
    tries = []
    for _ in range(2 if give_up else TRIES):
        reports, worst = {}, 0.0
        for name in names:
            reports[name], stolen = once(commands[name])
            worst = max(worst, stolen)
            show(name, reports[name])
            if give_up and worst > LIMIT:
                break
        if worst <= LIMIT:
            return reports
        tries.append((worst, reports))
        counts["repetitions"] += 1
        print(f"again: {100 * worst:.0f} % of the CPU went to others", file=sys.stderr, flush=True)
        time.sleep(PAUSE)
    if give_up:
        raise SystemExit(GAVE_UP)
    counts["disturbed"] += 1
    return min(tries, key=lambda attempt: attempt[0])[1]


def rounds(what, commands, args, show):
    """Runs every command once a round, in an order that turns with the round. Returns name -> list of reports."""
    done = kept_rounds(args, what)
    reports, names = {name: [] for name in commands}, list(commands)
    for turn in range(args.rounds):
        start = turn % len(names)
        if turn < len(done):
            latest = done[turn]
        else:
            latest = one_round(commands, names[start:] + names[:start], args.give_up, show)
            keep_round(args, what, latest)
        counts["rounds"] += 1
        for name in names:
            reports[name].append(latest[name])
    return reports


def settings(args):
    """What a kept round must have been measured with."""
    about = os.stat(args.covmatch)
    return [about.st_size, about.st_mtime, args.iterations, args.threads]


def kept_rounds(args, what):
    if not args.state or not os.path.exists(args.state):
        return []
    with open(args.state) as lines:
        entries = [json.loads(line) for line in lines]
    return [entry["reports"] for entry in entries if entry["what"] == what and entry["settings"] == settings(args)]


def keep_round(args, what, reports):
    if args.state:
        with open(args.state, "a") as state:
            state.write(json.dumps({"what": what, "settings": settings(args), "reports": reports}) + "\n")


def summary():
    """What a page says about it."""
    return (
        f"A round during which more than {100 * LIMIT:.0f} % of the CPU time went to other guests of the host is measured "
        f"again; {counts['disturbed']} of {counts['rounds']} rounds stayed disturbed."
    )
