"""How the benchmarks measure: side by side, in turns, so that a noisy machine is noisy for all alike."""

import statistics
import time
from contextlib import suppress
from functools import partial

import psutil


def in_turns(actions, repeat, *, warm_up=1, clock=time.process_time):
    """The median of each action's runs in seconds, by name: one of each, then again, in a turning order.

    CPU time, which neighbours disturb the least; with `time.perf_counter` what passes on the wall.
    """
    names = list(actions)
    times = {name: [] for name in names}
    for number in range(repeat + warm_up):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            started = clock()
            actions[name]()
            times[name].append(clock() - started)
    return {name: statistics.median(runs[warm_up:]) for name, runs in times.items()}


def wall_and_cpu(actions, repeat):
    """The same in seconds on the wall and of CPU time, with all processes that are started meanwhile."""
    used = {name: [] for name in actions}

    def metered(name):
        before = tree_cpu_s()
        actions[name]()
        used[name].append(tree_cpu_s() - before)

    wall = in_turns({name: partial(metered, name) for name in actions}, repeat, clock=time.perf_counter)
    return wall, {name: statistics.median(runs[1:]) for name, runs in used.items()}


def quantile(values, part):
    """The value below which this part of the values lies."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def row(name, value, unit, baseline=None, ratio=None):
    """One line: what it is, ours, and what it is held against; the ratio is how many times better ours is."""
    return {
        "name": name,
        "value": value if value is None else float(f"{value:.4g}"),
        "unit": unit,
        "baseline": baseline if baseline is None else float(f"{baseline:.4g}"),
        "ratio": ratio if ratio is None else round(ratio, 2),
    }


def times_row(name, ours_s, baseline_s=None):
    """A row of milliseconds."""
    ratio = None if baseline_s is None else baseline_s / ours_s
    return row(name, ours_s * 1000, "ms", None if baseline_s is None else baseline_s * 1000, ratio)


def tree_cpu_s():
    """CPU time of this process and of all that it started, so far: what of these has ended is in their parents' sums."""
    total = 0
    for process in tree():
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def tree(pid=None):
    """A process, by default this one, and all below it that are there now."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
