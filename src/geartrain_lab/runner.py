"""A run: (problem, method, seed, budget) -> a table.

A table has one row per look at f: experiment, case, data, method, seed, settings as JSON, version,
machine, status, iter, seconds, f, gap = f - f*, and one column per kind of call. The runs of a
randomised method with several seeds are in one table.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

import geartrain as gt
from geartrain.core.status import Status
from geartrain.core.stopping import Look
from geartrain_lab.harness import CALLS, run_whole
from geartrain_lab.store import Store, config_hash, machine, pandas

# f is looked at in the first iterations, and then whenever their number has grown by this factor.
# The clock plays no part, so that the calls to reach a target are the same in every run.
_FIRST_LOOKS = 40
_LOOK_AGAIN = 1.005

SEEDS = (0, 1, 2, 3, 4)  # of a randomised method; quartiles of five runs are two of the runs


@dataclass(frozen=True)
class Case:
    """A problem, its minimum, and everything that a table should tell about it."""

    experiment: str
    name: str
    data: str  # in words, for captions
    h: Any
    g: Any
    f_star: float  # from a reference solver
    facts: Mapping[str, Any]  # constants and sizes: L_h, L_g, R, ... and the error of f_star


@dataclass(frozen=True)
class Probe:
    """An L_h that was found by asking h: the calls and seconds for it belong to the run."""

    L_h: float
    calls: int
    seconds: float


@dataclass(frozen=True)
class Entry:
    """A curve: its name in legends and tables, and the method for a case."""

    label: str  # the same in every figure
    meaning: str  # one sentence that says what exactly was run
    make: Callable[[Case], Any]
    randomised: bool = False  # whether it is run with every seed
    L_h: str = "bound of the term"  # where the method's L_h is from, in words
    probe: Callable[[Case], Probe] | None = None  # an L_h instead of the constant of the term
    limit: float | None = None  # seconds per run, instead of those of the stage

    @property
    def seeds(self) -> tuple[int, ...]:
        return SEEDS if self.randomised else SEEDS[:1]


# Of both experiments.
LBFGS = Entry(
    "L-BFGS",
    "SciPy's L-BFGS-B on the sum. Not in the paper.",
    lambda case: gt.ScipyLBFGS(),
    L_h="not used",
)
PQN = Entry(
    "pqn",
    "Separation with a quasi-Newton model of h; needs no constants. Not in the paper.",
    lambda case: gt.methods.ProximalQuasiNewton(),
    L_h="not used",
)


@dataclass(frozen=True)
class Stage:
    """Runs of several methods on one case."""

    build: Callable[[], Case]
    entries: Sequence[Entry]
    target: float  # runs end at f - f* <= target
    limit: float  # seconds per run

    @property
    def runs(self) -> int:
        return sum(len(entry.seeds) for entry in self.entries)


@dataclass
class TargetOrTime:
    """Stopping rule: f - f* <= target, or the time is over. Looks at f without being counted."""

    f_star: float
    target: float
    limit: float
    status: Any = None  # a bar of tqdm
    k: int = field(default=0, init=False)  # iterations seen
    last: int = field(default=0, init=False)  # of them, at the last look

    def check(self, look: Look) -> Status | None:
        """The status to end with; the schedule of looks is the same for every method."""
        over = look.seconds >= self.limit
        self.k += 1
        due = self.k <= _FIRST_LOOKS or self.k >= _LOOK_AGAIN * self.last
        if not (due or over):
            return None
        self.last = self.k
        gap = look.f() - self.f_star
        if self.status is not None:
            self.status.set_postfix_str(f"f - f* {gap:.1e}", refresh=False)
            self.status.update(0)
        if gap <= self.target:
            return Status.CONVERGED
        return Status.BUDGET if over else None


def run_stage(stage: Stage, store: Store, status: Any) -> Any:
    """All runs of a stage in one table; runs whose table is in the store are not made again."""
    case = stage.build()
    return pandas().concat(
        [run_entry(case, entry, stage, store, status) for entry in stage.entries],
        ignore_index=True,
    )


def run_entry(case: Case, entry: Entry, stage: Stage, store: Store, status: Any) -> Any:
    """The runs of one curve in a table, which is stored after every run."""
    limit = stage.limit if entry.limit is None else entry.limit
    method = entry.make(case)
    settings = {
        "method": repr(method),
        "changed": changed(method),
        "target": stage.target,
        "limit": limit,
        **case.facts,
    }
    config = config_hash(
        {
            **settings,
            "case": [case.experiment, case.name, case.data, case.f_star],
            "label": entry.label,
            "probe": entry.probe is not None,
            "version": gt.__version__,
        }
    )
    name = _file_name(case.experiment, case.name, entry.label)
    table = store.get(name, config)
    for seed in entry.seeds:
        told = f", seed {seed}" if entry.randomised else ""
        run_name = f"{case.experiment} {case.name}: {entry.label}{told}"
        status.set_description(run_name)
        known = None if table is None else table[table.seed == seed]
        if known is not None and not known.empty:
            _tell(status, run_name, known, "  (kept)")
            continue
        rule = TargetOrTime(case.f_star, stage.target, limit, status)
        run = _run(case, entry, method, seed, settings, rule)
        _tell(status, run_name, run)
        rows = run if table is None else pandas().concat([table, run], ignore_index=True)
        table = store.put(name, config, rows)
    return table


def progress(runs: int) -> Any:
    """A bar of tqdm for so many runs, on terminals only; a run that is over has its own line."""
    return tqdm(total=runs, mininterval=0.25, miniters=0, leave=False, disable=None)


def _tell(status: Any, name: str, run: Any, word: str = "") -> None:
    gap, spent = run.gap.min(), run.seconds.max()
    status.write(f"{name:52} f - f* {gap:8.1e} {spent:7.1f} s{word}", file=sys.stderr)
    status.update()


def _run(
    case: Case, entry: Entry, method: Any, seed: int, settings: dict[str, Any], rule: TargetOrTime
) -> Any:
    warm_up(case, method)
    probe = Probe(case.facts["L_h"], 0, 0.0) if entry.probe is None else entry.probe(case)
    res = run_whole(
        case.h,
        case.g,
        method=method,
        stop=rule,
        L_h=probe.L_h,
        L_g=case.facts["L_g"],
        seed=seed,
        max_iter=10**9,
    )
    told = {
        **settings,
        "meaning": entry.meaning,
        "randomised": entry.randomised,
        "L_h used": probe.L_h,
        "L_h from": entry.L_h,
        "load average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0,
    }
    return _rows(case, entry, seed, told, probe, res)


def _rows(
    case: Case, entry: Entry, seed: int, settings: dict[str, Any], probe: Probe, res: Any
) -> Any:
    history = res.history.to_pandas()
    seen = history[np.isfinite(history.f)]
    table = pandas().DataFrame(
        {
            "experiment": case.experiment,
            "case": case.name,
            "data": case.data,
            "method": entry.label,
            "seed": seed,
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


def changed(method: Any) -> str:
    """The call that makes this method, with the arguments that differ from their defaults."""
    if not is_dataclass(method):
        return repr(method)
    given = []
    for part in fields(method):
        value = getattr(method, part.name)
        default = part.default if part.default_factory is MISSING else part.default_factory()
        if part.init and repr(value) != repr(default):
            given.append(f"{part.name}={changed(value)}")
    return f"{type(method).__name__}({', '.join(given)})"


def warm_up(case: Case, method: Any) -> None:
    """Compile what the method uses and touch the data, so that its curve does not pay for it."""
    L_h, L_g = case.facts["L_h"], case.facts["L_g"]
    run_whole(case.h, case.g, method=method, L_h=L_h, L_g=L_g, max_iter=1)


def _file_name(*parts: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower()).strip("-")
