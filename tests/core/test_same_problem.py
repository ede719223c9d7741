"""A checkpoint goes on with its own problem only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.core.checkpoint import CheckpointError, dumps, read
from runs import NEVER, same, sums

pytestmark = pytest.mark.same_everywhere  # fingerprints of data


def test_another_problem_is_refused(tmp_path):
    h, g = sums()
    path = tmp_path / "run.gtck"
    gt.minimize(h, g, method="sae", max_iter=3, stop=NEVER, checkpoint=path)
    data = path.read_bytes()
    other_y = gt.LinearModel(g.A, -g.y, loss="logistic", l2=0.05)
    other_l2 = gt.LinearModel(g.A, g.y, loss="logistic", l2=0.06)
    small = gt.Quadratic(np.eye(7)), gt.Quadratic(np.eye(7))
    callables = gt.Term(h.value_and_grad, n=8, L=1.0)
    for pair in [(h, other_y), (h, other_l2), (g, h), small, (callables, g), (2.0 * h, g)]:
        with pytest.raises(CheckpointError, match=r"a run on another problem: . was"):
            gt.resume(path, *pair)
        assert path.read_bytes() == data
    # constants that were computed in the meantime do not matter, nor does a second copy
    copy = gt.LinearModel(g.A.copy(), g.y.copy(), loss="logistic", l2=0.05)
    assert copy.L_coord is not None
    assert gt.resume(path, h, copy, max_iter=2).nit == 5
    plain = gt.Term(h.value_and_grad, n=8, L=1.0)
    gt.minimize(plain, g, method="sae", max_iter=2, checkpoint=path)
    with pytest.raises(CheckpointError, match="h was Term"):
        gt.resume(path, gt.Term(h.value_and_grad, n=8, L=2.0), g)


# Functions and operators -----------------------------------------------------------------------


def callables(weight=1.0, kind="value_and_grad", log=None):
    """A term of functions; `weight` changes what they answer and nothing that can be seen."""
    h, _ = sums()

    def asked(fn, *args):
        if log is not None:
            log.append(args)
        out = fn(*args)
        return (weight * out[0], weight * out[1]) if isinstance(out, tuple) else weight * out

    fns = {
        "value_and_grad": {"value_and_grad": lambda x: asked(h.value_and_grad, x)},
        "grad": {"grad": lambda x: asked(h.grad, x)},
        "value": {"value": lambda x: asked(h.value, x), "noise": 1e-12},
        "coord": {"coord": lambda x, i: asked(h.coord, x, i), "L_coord": h.L_coord},
        "component": {
            "component": lambda x, k: asked(h.grad, x),
            "n_components": 2,
            "L_components": [h.L, h.L],
        },
    }
    return gt.Term(n=8, L=h.L, **fns[kind])


@pytest.mark.parametrize("kind", ["value_and_grad", "grad", "value", "coord", "component"])
def test_functions_that_answer_otherwise_are_refused(tmp_path, kind):
    """One question of the earlier run is asked again, and it is not counted."""
    path = tmp_path / "run.gtck"
    h, log = gt.Quadratic(np.diag(np.linspace(0.2, 1.0, 8)), np.ones(8)), []
    options = {"method": "afb", "stop": NEVER}
    whole = gt.minimize(h, callables(kind=kind), max_iter=7, **options)
    gt.minimize(h, callables(kind=kind), max_iter=3, checkpoint=path, **options)
    data = path.read_bytes()
    wrong = callables(1.01, kind, log)
    with pytest.raises(CheckpointError, match=rf"another problem: g = Term.* to '{kind}' at a poi"):
        gt.resume(path, h, wrong, max_iter=4)
    assert len(log) == 1 and path.read_bytes() == data
    log.clear()
    resumed = gt.resume(path, h, callables(kind=kind, log=log), max_iter=4)
    same(whole, resumed)
    # the questions of the resumed part, the one of the comparison, and f at the end and at x0
    counted = whole.calls[f"g.{kind}".replace("value_and_", "")] - calls_after(h, kind, 3)
    assert counted + 1 <= len(log) <= counted + 3
    unasked = gt.resume(path, h, wrong, max_iter=0, check=False)
    assert unasked.nit == 7


def calls_after(h, kind, steps):
    res = gt.minimize(h, callables(kind=kind), method="afb", stop=NEVER, max_iter=steps)
    return res.calls[f"g.{kind}".replace("value_and_", "")]


def test_either_term_is_compared_and_little_differences_pass(tmp_path):
    path = tmp_path / "run.gtck"
    _, g = sums()
    gt.minimize(callables(), g, method="sae", max_iter=3, stop=NEVER, checkpoint=path)
    with pytest.raises(CheckpointError, match="h = Term"):
        gt.resume(path, callables(1.001), g)
    assert gt.resume(path, callables(1.0 + 1e-6), g, max_iter=1).nit == 4
    # ... and the answers of the first part are still there if nothing new was asked
    gt.resume(path, callables(), g, max_iter=0)
    with pytest.raises(CheckpointError, match="h = Term"):
        gt.resume(path, callables(1.001), g)


def test_parts_of_sums_and_operators_are_compared(tmp_path):
    path = tmp_path / "run.gtck"
    h, g = sums()
    made = {
        "sum": lambda w: h + 2.0 * callables(w),
        "operator": lambda w: gt.Quadratic(aslinearoperator(w * h.Q), h.b),
        "model": lambda w: gt.LinearModel(aslinearoperator(w * g.A), g.y),
    }
    for make in made.values():
        gt.minimize(make(1.0), g, method="fgm", max_iter=3, stop=NEVER, checkpoint=path)
        with pytest.raises(CheckpointError, match=r"h = .* does not answer as before"):
            gt.resume(path, make(1.01), g)
        assert gt.resume(path, make(1.0), g, max_iter=2).nit == 5


def test_terms_whose_data_is_seen_are_not_asked(tmp_path, monkeypatch):
    h, g = sums()
    path = tmp_path / "run.gtck"
    gt.minimize(h, g, method="sae", max_iter=3, stop=NEVER, checkpoint=path)
    assert read(path).heard == {}
    asked = []
    for cls in (gt.Quadratic, gt.LinearModel):
        for question in ("grad", "value_and_grad"):
            monkeypatch.setattr(cls, question, lambda *a: asked.append(a))
    assert gt.resume(path, h, g, max_iter=0).nit == 3 and not asked


def test_a_file_cannot_have_other_methods_called(tmp_path):
    """A tampered file with a right checksum: it may name questions of a term, nothing else."""

    class Bomb(gt.Term):
        def explode(self, x):
            raise SystemExit

    path = tmp_path / "run.gtck"
    h, g = sums()
    term = Bomb(h.value_and_grad, n=8, L=1.0)
    gt.minimize(term, g, method="sae", max_iter=2, stop=NEVER, checkpoint=path)
    saved = read(path)
    _, args, answer = saved.heard["h"]
    path.write_bytes(dumps(replace(saved, heard={"h": ("explode", args, answer)})))
    with pytest.raises(CheckpointError, match="it is not asked for 'explode'"):
        gt.resume(path, term, g)


# Geometries ------------------------------------------------------------------------------------

RNG = np.random.default_rng(9)
D, U = RNG.uniform(0.5, 3.0, 8), RNG.standard_normal((8, 2))
M = np.diag(D) + U @ U.T
INVERSE = np.linalg.inv(M)


def operator(w):
    return gt.geometry.Preconditioned(aslinearoperator(w * M), lambda v: INVERSE @ v / w)


SPACES = {
    "diagonal": lambda w: gt.geometry.Diagonal(w * D),
    "low rank": lambda w: gt.geometry.LowRankPlusDiagonal(w * U, D),
    "matrix": lambda w: gt.geometry.Preconditioned(w * M),
    "sparse": lambda w: gt.geometry.Preconditioned(sparse.csr_array(w * M)),
    "operator": operator,
}


@pytest.mark.parametrize(
    ("kind", "method"), [*zip(SPACES, ["auto", "afb", "fgm", "lbfgs", "r-sae"], strict=True)]
)
def test_resume_in_a_geometry(tmp_path, kind, method):
    h, g = sums()
    path = tmp_path / "run.gtck"
    space = SPACES[kind]
    options = {"method": method, "stop": NEVER, "seed": 3}
    if method == "auto":  # measured prices depend on the clock
        options["prices"] = {"h.grad": 10.0, "g.grad": 1.0}
    whole = gt.minimize(h, g, max_iter=7, geometry=space(1.0), **options)
    gt.minimize(h, g, max_iter=3, geometry=space(1.0), checkpoint=path, **options)
    data = path.read_bytes()
    for wrong in (None, gt.geometry.Diagonal(np.ones(8)), space(1.01)):
        what = "does not answer as before" if kind == "operator" and wrong else "geometry was"
        what = "geometry was" if isinstance(wrong, gt.geometry.Diagonal) else what
        with pytest.raises(CheckpointError, match=what):
            gt.resume(path, h, g, geometry=wrong)
        assert path.read_bytes() == data
    same(whole, gt.resume(path, h, g, geometry=space(1.0), max_iter=4))


def test_resume_in_the_geometry_of_a_kernel(tmp_path):
    path = tmp_path / "run.gtck"
    t = np.linspace(0.0, 1.0, 30)
    y = np.sign(np.cos(9.0 * t))

    def made(width):
        K = np.exp(-width * (t[:, None] - t) ** 2)
        return K, gt.Quadratic(0.1 * K), gt.LinearModel(K, y)

    K, h, g = made(50.0)
    options = {"method": "afb", "stop": NEVER}
    whole = gt.minimize(h, g, geometry=gt.geometry.RKHS(K), max_iter=9, **options)
    gt.minimize(h, g, geometry=gt.geometry.RKHS(K), max_iter=4, checkpoint=path, **options)
    with pytest.raises(CheckpointError, match=r"geometry was RKHS\(m=30\) .*, is RKHS\(m=30\)"):
        gt.resume(path, h, g, geometry=gt.geometry.RKHS(made(51.0)[0]))
    with pytest.raises(CheckpointError, match="h was Quadratic"):
        gt.resume(path, *made(51.0)[1:], geometry=gt.geometry.RKHS(K))
    same(whole, gt.resume(path, h, g, geometry=gt.geometry.RKHS(K.copy()), max_iter=5))
