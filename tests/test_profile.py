"""Random problems: the two splits, determinism, and what the families promise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import geartrain as gt
from geartrain.lab.profile.families import FAMILIES, LARGEST, problem, problems, seed

ONE_ROUND = len(FAMILIES)


def test_at_least_twelve_families():
    assert len(FAMILIES) >= 12
    assert {p.family for p in problems("development", ONE_ROUND)} == set(FAMILIES)


def test_the_splits_share_no_seed():
    development = {seed("development", k) for k in range(1000)}
    report = {seed("report", k) for k in range(1000)}
    assert len(development) == len(report) == 1000
    assert not development & report


def test_the_split_has_to_be_said():
    with pytest.raises(TypeError):
        problem(k=0)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="development"):
        problem("all", 0)  # type: ignore[arg-type]


def test_the_same_problem_at_every_call():
    for k in range(ONE_ROUND):
        one, two = problem("development", k), problem("development", k)
        assert one.name == two.name
        assert np.array_equal(one.x0, two.x0)
        for a, b in ((one.h, two.h), (one.g, two.g)):
            assert np.array_equal(a.grad(one.x0), b.grad(one.x0))
            assert a.value(one.x0) == b.value(one.x0)


def test_names_and_points_differ():
    drawn = [*problems("development", 2 * ONE_ROUND), *problems("report", 2 * ONE_ROUND)]
    assert len({p.name for p in drawn}) == len(drawn)
    gradients = [(p.n, p.h.grad(p.x0)) for p in drawn]
    assert not any(n == m and np.array_equal(a, b) for (n, a), (m, b) in combinations(gradients, 2))


def test_start_continues_the_stream():
    assert [p.name for p in problems("report", 2, start=3)] == [
        problem("report", k).name for k in (3, 4)
    ]


def test_what_is_drawn():
    drawn = list(problems("development", 6 * ONE_ROUND))
    assert all(2 <= p.n <= LARGEST for p in drawn)
    assert min(p.n for p in drawn) <= 3 and max(p.n for p in drawn) > 400
    assert np.median([p.n for p in drawn]) < 60
    assert {p.name.split(", ")[-1].split(" (")[0] for p in drawn} == {
        "from zero",
        "from far",
        "from near",
    }
    for p in drawn:
        if p.n <= 60:
            assert p.convex_g
            assert p.convex_h or "shards" in p.family
        assert np.linalg.norm(p.h.grad(p.x0) + p.g.grad(p.x0)) > 0.0
    sizes = [np.linalg.norm(p.h.grad(p.x0) + p.g.grad(p.x0)) for p in drawn]
    assert min(sizes) < 1e-4 and max(sizes) > 1e4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_terms_hold_what_they_say(family):
    k = list(FAMILIES).index(family)
    candidates = (problem("development", k + i * ONE_ROUND) for i in range(20))
    p = next(c for c in candidates if c.n <= 60 and c.x0.any())
    rng = np.random.default_rng(1)
    size = np.linalg.norm(p.x0) / np.sqrt(p.n)
    x, y = p.x0, p.x0 + 0.1 * size * rng.standard_normal(p.n)
    grad = [p.h.grad(z) + p.g.grad(z) for z in (x, y)]
    assert (grad[1] - grad[0]) @ (y - x) > 0.0  # f is convex
    for term in (p.h, p.g):
        d = rng.standard_normal(p.n) * size
        slope = (term.value(x + 1e-5 * d) - term.value(x - 1e-5 * d)) / 2e-5
        far = abs(term.value(x)) * 1e-11 / 1e-5
        assert slope == pytest.approx(term.grad(x) @ d, rel=1e-4, abs=far + 1e-12)


def test_the_report_is_used_by_the_profile_alone():
    """Nothing in the library or in the benchmarks draws report problems but the profile itself."""
    from pathlib import Path

    root = Path(gt.__file__).parent
    places = [*root.rglob("*.py"), *(root.parents[1] / "benchmarks").rglob("*.py")]
    for path in places:
        if path.parent.name != "profile":
            text = path.read_text()
            assert 'problems("report"' not in text and 'problem("report"' not in text, path
