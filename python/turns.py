"""Programs measured in turns, so that a busy stretch of a shared machine meets all of them alike.

Every contender is a process that lives through the whole measurement and measures once for every line on its stdin
(`--serve`). In a round each of them does so once, in an order that turns with the round; the first round is not counted. A
ratio of times is the median over rounds of the ratios within a round: what slows a whole round down cancels out.
"""

import json
import statistics
import subprocess
import sys
import time

PAUSE = 0.25  # seconds between turns: threads that still spin go to sleep


class Contender:
    """A program that answers a line with a JSON object."""

    def __init__(self, command):
        self.command = [*command, "--serve"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def turn(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SystemExit(f"error: {' '.join(self.command)} failed: run it without --serve to see why")
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def rounds(what, commands, count):
    """Name -> `count` reports, of commands measured in turns."""
    contenders = {name: Contender(command) for name, command in commands.items()}
    names, reports = list(commands), {name: [] for name in commands}
    for number in range(count + 1):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            report = contenders[name].turn()
            if number > 0:
                reports[name].append(report)
            time.sleep(PAUSE)
        print(f"{what}: round {number} of {count}", file=sys.stderr, flush=True)
    for contender in contenders.values():
        contender.end()
    return reports


def median(reports, key):
    return statistics.median(report[key] for report in reports)


def best_peer(reports, peers, key):
    """The peer with the lowest median."""
    return min(peers, key=lambda peer: median(reports[peer], key))


def ratios(reports, ours, peers, key):
    """Quartiles and median of `ours` / the better peer within rounds: (lower quartile, median, upper quartile)."""
    peer = best_peer(reports, peers, key)
    found = [a[key] / b[key] for a, b in zip(reports[ours], reports[peer])]
    if len(found) == 1:
        return found * 3
    return statistics.quantiles(found, n=4, method="inclusive")


def summary(count):
    """What a page says about it."""
    return (
        f"The programs live side by side and measure in turns, {count} rounds. A time ratio is the median over rounds of the "
        "ratios within a round, its quartiles in brackets; seconds are medians over rounds."
    )
