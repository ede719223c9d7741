"""The problems of ``geartrain bench frontier``: f = h + g with h expensive, from x0 = 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from geartrain_lab import problems


def _no_constants(h: Any, g: Any) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class SuiteProblem:
    """A problem by name; `make` returns (h, g)."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    separable: bool = True  # False where separation is not expected to win
    # Constants that the terms do not know, for the methods that ask for them: L_h, mu.
    constants: Callable[[Any, Any], dict[str, float]] = _no_constants
    f_star: Callable[[Any, Any], float] | None = None  # used instead of long runs


def suite(quick: bool = False) -> list[SuiteProblem]:
    """All problems, or a few small ones."""
    minimum = problems.kernel_svm_minimum
    constants = problems.similarity_constants
    if quick:
        return [
            SuiteProblem("graph Laplacian", lambda: problems.graph_laplacian(side=20, rows=150)),
            SuiteProblem("total variation", lambda: problems.total_variation(side=32)),
            SuiteProblem("log-density", lambda: problems.log_density(n=100, p=1200)),
            SuiteProblem("kernel SVM, random", problems.random_kernel_svm, f_star=minimum),
            SuiteProblem("random, 8 shards", problems.random_shards, constants=constants),
        ]
    out = [
        SuiteProblem("log-density", problems.log_density),
        SuiteProblem("kernel SVM", problems.gas_sensors_svm, f_star=minimum),
        SuiteProblem("graph Laplacian", problems.graph_laplacian),
        SuiteProblem("total variation", problems.total_variation),
    ]
    for name in ("a9a", "mushrooms", "phishing"):
        for shards in (4, 16, 64):
            for l2 in (1e-4, 1e-5):
                title = f"{name}, {shards} shards, l2 {l2:g}"
                make = partial(problems.libsvm_shards, name, shards, l2)
                out.append(SuiteProblem(title, make, constants=constants))
    rcv1 = partial(problems.libsvm_shards, "rcv1_small", 4, 1e-4)
    out.append(SuiteProblem("rcv1_small, 4 shards", rcv1, separable=False, constants=constants))
    return out
