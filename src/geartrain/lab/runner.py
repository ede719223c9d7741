"""A run: (problem, method, seed, budget) -> a tidy table.

A table has one row for every look at f: experiment, case, data, method, seed, settings as JSON,
version, machine, status, iter, seconds, f, gap = f - f*, and one column for each kind of call.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.core.status import Status
from geartrain.core.stopping import Look
from geartrain.lab.status_line import StatusLine
from geartrain.lab.store import Store, config_hash, machine, pandas
from geartrain.oracles.questions import kinds

# f is looked at in the first iterations, then whenever their number has grown by this share. Not by
# the clock, so that the calls to reach a target are the same in every run.
_FIRST_LOOKS = 40
_LOOK_AGAIN = 1.02

CALLS = tuple(f"{term}.{kind}" for term in ("h", "g") for kind in kinds())


@dataclass(frozen=True)
class Case:
    """A problem, its minimum, and everything that a table should tell about it.

    Parameters
    ----------
    experiment, name : str
        "kernel-svm" and the like; the case within it.
    data : str
        For captions.
    h, g : terms
    f_star : float
        From a reference solve.
    facts : mapping
        Constants and sizes: L_h, L_g, R, ... and how exact f_star is.
    """

    experiment: str
    name: str
    data: str
    h: Any
    g: Any
    f_star: float
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Probe:
    """A constant that was measured by asking h: its calls and seconds belong to the run."""

    L_h: float
    calls: int
    seconds: float


@dataclass(frozen=True)
class Entry:
    """A curve: a name for the legend and the method for a case.

    Parameters
    ----------
    label : str
    make : callable
        Case -> method.
    probe : callable, optional
        Case -> `Probe`: an L_h to use instead of the case's.
    limit : float, optional
        Seconds, instead of the stage's.
    """

    label: str
    make: Callable[[Case], Any]
    probe: Callable[[Case], Probe] | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Stage:
    """Runs of several methods on one case.

    Parameters
    ----------
    build : callable
        Makes the case.
    entries : sequence of Entry
    target : float
        Runs end at f - f* <= target.
    limit : float
        Seconds of a run.
    seed : int
    """

    build: Callable[[], Case]
    entries: Sequence[Entry]
    target: float
    limit: float
    seed: int = 0

    @property
    def seconds(self) -> float:
        """Time that the stage takes at most."""
        return sum(self.limit if e.limit is None else e.limit for e in self.entries)


@dataclass
class TargetOrTime:
    """Stopping rule: f - f* <= target, or the time is over. Looks at f without being counted."""

    f_star: float
    target: float
    limit: float
    progress: StatusLine | None = None
    k: int = field(default=0, init=False)  # iterations seen
    last: int = field(default=0, init=False)  # of them, at the last look

    def check(self, look: Look) -> Status | None:
        """The status to end with; the same schedule of looks for every method."""
        over = look.seconds >= self.limit
        self.k += 1
        due = self.k <= _FIRST_LOOKS or self.k >= _LOOK_AGAIN * self.last
        if not (due or over):
            return None
        self.last = self.k
        gap = look.f() - self.f_star
        if self.progress is not None:
            self.progress.show(gap, look.seconds)
        if gap <= self.target:
            return Status.CONVERGED
        return Status.BUDGET if over else None


def run_stage(stage: Stage, store: Store, progress: StatusLine) -> Any:
    """All runs of a stage, one table; runs whose table is there are not made again."""
    case = stage.build()
    return pandas().concat(
        [run_entry(case, entry, stage, store, progress) for entry in stage.entries],
        ignore_index=True,
    )


def run_entry(case: Case, entry: Entry, stage: Stage, store: Store, progress: StatusLine) -> Any:
    """One run and its table, from the store where it is there."""
    limit = stage.limit if entry.limit is None else entry.limit
    method = entry.make(case)
    settings = {"method": repr(method), "target": stage.target, "limit": limit, **case.facts}
    config = config_hash(
        {
            **settings,
            "case": [case.experiment, case.name, case.data, case.f_star],
            "label": entry.label,
            "probe": entry.probe is not None,
            "seed": stage.seed,
            "version": gt.__version__,
        }
    )
    name = _file_name(case.experiment, case.name, entry.label)
    label = f"{case.experiment} {case.name}: {entry.label}"
    progress.begin(label, limit)
    known = store.get(name, config)
    if known is not None:
        progress.end(float(known.gap.min()), float(known.seconds.max()), word="  (kept)")
        return known
    warm_up(case, method)
    probe = Probe(case.facts["L_h"], 0, 0.0) if entry.probe is None else entry.probe(case)
    settings["L_h used"] = probe.L_h
    res = run_whole(
        case.h,
        case.g,
        method=method,
        stop=TargetOrTime(case.f_star, stage.target, limit, progress),
        L_h=probe.L_h,
        L_g=case.facts["L_g"],
        seed=stage.seed,
        max_iter=10**9,
    )
    settings["load average"] = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0
    table = _tidy(case, entry, stage, settings, probe, res)
    progress.end(float(table.gap.min()), float(table.seconds.max()))
    return store.put(name, config, table)


def _tidy(
    case: Case, entry: Entry, stage: Stage, settings: dict[str, Any], probe: Probe, res: Any
) -> Any:
    history = res.history.to_pandas()
    seen = history[np.isfinite(history.f)]
    table = pandas().DataFrame(
        {
            "experiment": case.experiment,
            "case": case.name,
            "data": case.data,
            "method": entry.label,
            "seed": stage.seed,
            "settings": json.dumps(settings),
            "version": gt.__version__,
            "machine": machine(),
            "status": Status(res.status).name,
            "iter": seen.iter.astype(int),
            "seconds": seen.seconds + probe.seconds,
            "f": seen.f,
            "gap": seen.f - case.f_star,
        }
    )
    for key in CALLS:
        table[key] = seen[key].astype(int)
    table["h.grad"] += probe.calls
    return table.reset_index(drop=True)


def warm_up(case: Case, method: Any) -> None:
    """Compile what the method uses and touch the data, so that its curve does not pay for it."""
    L_h, L_g = case.facts["L_h"], case.facts["L_g"]
    run_whole(case.h, case.g, method=method, L_h=L_h, L_g=L_g, max_iter=1)


def run_whole(*args: Any, **kwargs: Any) -> Any:
    """`geartrain.minimize`, except that Ctrl-C raises: half a run makes no table."""
    res = gt.minimize(*args, **kwargs)
    if res.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return res


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the seconds that it took."""
    start = perf_counter()
    answer = call()
    return answer, perf_counter() - start


def _file_name(*parts: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower())
