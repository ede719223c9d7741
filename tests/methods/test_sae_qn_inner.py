"""The inner run of SAE-QN in coefficients: the same directions as with dense matrices."""

import numpy as np
import pytest

import geartrain as gt
from geartrain.compiled import rows as compiled
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import rows as rows_module
from geartrain.methods.quasi_newton.curvature import Curvature, LongRows, ShortRows
from geartrain.methods.quasi_newton.inner import Phi, Point, descend
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.products import StepProducts
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.quasi_newton.step import Known, Step
from problems import logistic, states

READS = ("read", "direction")
LENGTHS = pytest.mark.parametrize("short", [True, False], ids=["short", "long"])


@pytest.fixture(autouse=True)
def length(request, monkeypatch):
    """Rows of any length take the way of long ones, where a test asks for it."""
    if not request.node.callspec.params.get("short", True):
        monkeypatch.setattr(rows_module, "SHORT", 0)


def matrix(rng, n, rank, lam):
    """A positive definite model with scaled rows, one of them zero, and the same as a matrix."""
    V = rng.standard_normal((rank + 2, n))
    C = np.zeros((rank, rank + 2))
    C[np.arange(rank), rng.permutation(rank + 2)[:rank]] = rng.uniform(0.5, 2.0, rank)
    C[0] = 0.0
    M = rng.standard_normal((rank, rank))
    M = M @ M.T / n
    small = Small(Rows(list(V)), C, C @ V @ V.T @ C.T, M, EUCLIDEAN)
    return LowRank(lam, small), lam * np.eye(n) + V.T @ C.T @ M @ C @ V


def bfgs(grad, pairs, B, mu):
    """-H grad by the updates one after the other, from (B + (mu + tau) I)^{-1}."""
    n, model = len(grad), B + mu * np.eye(len(B))
    s, y_g = pairs[-1]
    H = np.linalg.inv(model + max(s @ y_g, 0.0) / (s @ s) * np.eye(n))
    for s, y_g in pairs:
        y = y_g + model @ s
        E = np.eye(n) - np.outer(s, y) / (s @ y)
        H = E @ H @ E.T + np.outer(s, s) / (s @ y)
    return -H @ grad


def random_pairs(rng, count, n):
    """Pairs of a convex quadratic g."""
    weights = np.geomspace(1e-2, 10.0, n)
    return [(s, weights * s) for s in rng.standard_normal((count, n))]


@LENGTHS
@pytest.mark.parametrize("learned", [0, 3, 9])
def test_the_direction_is_that_of_bfgs(short, learned):
    """Pairs known at the start, pairs added, and the oldest forgotten."""
    rng, n, memory, mu = np.random.default_rng(learned), 40, 5, 0.3
    B, dense = matrix(rng, n, 6, 0.7)
    pairs, grad = random_pairs(rng, 4 + learned, n), rng.standard_normal(n)
    known = InnerPairs.of(pairs[:4], EUCLIDEAN)
    curvature = Curvature(B, mu, known, memory, n, EUCLIDEAN)
    for s, y_g in pairs[4:]:
        curvature.add(s, y_g, grad)
    d, Bd = curvature.direction(grad)
    expected = bfgs(grad, pairs[-memory:], dense, mu)
    np.testing.assert_allclose(d, expected, rtol=1e-8, atol=1e-8 * np.linalg.norm(expected))
    np.testing.assert_allclose(Bd, dense @ d + mu * d, rtol=1e-8, atol=1e-8 * np.linalg.norm(d))
    end = curvature.pairs()
    assert [id(s) for s, _ in end] == [id(s) for s, _ in pairs[-memory:]]
    check_inner_products(end)


@LENGTHS
def test_directions_of_a_run(short):
    """Steps of a run on a quadratic g, with old pairs forgotten, until digits would be lost."""
    rng, n, memory, mu = np.random.default_rng(4), 40, 4, 0.3
    B, dense = matrix(rng, n, 6, 0.7)
    weights, grad, pairs = np.geomspace(1e-2, 10.0, n), rng.standard_normal(n), []
    curvature = Curvature(B, mu, InnerPairs(), memory, n, EUCLIDEAN)
    for _ in range(14):
        d, Bd = curvature.direction(grad)
        if pairs:
            expected = bfgs(grad, pairs[-memory:], dense, mu)
            np.testing.assert_allclose(d, expected, rtol=0, atol=1e-7 * np.linalg.norm(expected))
        s = 0.9 * d
        pairs.append((s, weights * s))
        grad = grad + weights * s + 0.9 * Bd
        curvature.add(*pairs[-1], grad)
    assert np.linalg.norm(grad) < 0.02


@LENGTHS
@pytest.mark.parametrize("bend", [-0.5, -1e200])
@np.errstate(all="ignore")  # as in a run
def test_pairs_without_curvature_are_left_out(short, bend):
    """Also where inner products with them overflow."""
    rng, n = np.random.default_rng(3), 30
    B, dense = LowRank(0.5), 0.5 * np.eye(30)
    pairs = random_pairs(rng, 4, n)
    flat = (pairs[1][0], bend * pairs[1][0])
    known = InnerPairs.of([pairs[0], flat, pairs[2]], EUCLIDEAN)
    curvature = Curvature(B, 0.0, known, 5, n, EUCLIDEAN)
    for _ in range(2):
        curvature.add(*flat, flat[1])
    assert len(curvature) == 2
    grad = rng.standard_normal(n)
    expected = bfgs(grad, [pairs[0], pairs[2]], dense, 0.0)
    np.testing.assert_allclose(curvature.direction(grad)[0], expected, rtol=1e-9, atol=1e-9)
    curvature.clear()
    np.testing.assert_allclose(curvature.direction(grad)[0], -grad / (0.5 + curvature.tau))


@LENGTHS
@pytest.mark.parametrize("rank", [0, 5])
def test_the_direction_in_another_geometry(short, rank):
    """BFGS in the inner product <u, v> = u'diag(q)v, with pairs [u; q u] for vectors."""
    rng, n, memory, mu, lam = np.random.default_rng(8), 30, 4, 0.2, 0.6
    q = np.linspace(0.5, 3.0, n)
    geometry = gt.geometry.Diagonal(q)
    B, model = LowRank(lam), lam * np.eye(n)
    if rank:
        V = rng.standard_normal((rank, n))
        M = np.diag(rng.uniform(0.1, 1.0, rank))
        rows = Rows([geometry.enter(v) for v in V])
        B = LowRank(lam, Small(rows, np.eye(rank), (V * q) @ V.T, M, geometry))
        model = model + V.T @ M @ (V * q)
    curvature = Curvature(B, mu, InnerPairs(), memory, 2 * n, geometry)
    grad, pairs = rng.standard_normal(n), random_pairs(rng, 7, n)
    for s, y_g in pairs:
        curvature.add(geometry.enter(s), geometry.enter(y_g), geometry.enter(grad))
    d, Bd = curvature.direction(geometry.enter(grad))
    # the same in the coordinates sqrt(q) v, where the inner product is Euclidean
    root = np.sqrt(q)
    turned = [(root * s, root * y_g) for s, y_g in pairs[-memory:]]
    expected = bfgs(root * grad, turned, root[:, None] * model / root, mu) / root
    np.testing.assert_allclose(d[:n], expected, rtol=0, atol=1e-9 * np.linalg.norm(expected))
    np.testing.assert_allclose(Bd[:n], model @ d[:n] + mu * d[:n], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(d[n:], q * d[:n], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(Bd[n:], q * Bd[:n], rtol=1e-9, atol=1e-9)


def check_inner_products(pairs):
    """What is stored is what the vectors give."""
    W = np.array([row for pair in pairs for row in pair])
    size = np.linalg.norm(W, axis=1)
    bound = 1e-12 * np.outer(size, size)
    assert np.all(np.abs(pairs.gram - W @ W.T) <= bound)
    if pairs.rows:
        V = np.array(pairs.rows)
        bound = 1e-12 * np.outer(np.linalg.norm(V, axis=1), size)
        assert np.all(np.abs(pairs.cross - V @ W.T) <= bound)


def separable(n, seed=0):
    rng = np.random.default_rng(seed)
    a, w = rng.standard_normal(n), np.geomspace(1e-3, 1.0, n)

    def h(x):
        root = np.sqrt(1.0 + (x - a) ** 2)
        return float(root.sum()), (x - a) / root

    return gt.Term(h, n=n, convex=True), gt.Term(lambda x: (0.5 * float((w * x) @ x), w * x), n=n)


@LENGTHS
def test_inner_products_that_are_carried_from_run_to_run(short):
    """Along a run with few pairs, so that old ones are forgotten, in the memory too."""
    problem, seen = logistic().sum(), 0
    n = problem.h.n
    for state in states(gt.methods.SAEQN(memory=4), problem, np.ones(n), 8):
        if len(state.inner_pairs):
            check_inner_products(state.inner_pairs)
            seen += len(state.inner_pairs)
        V = np.array([row for pair in state.memory.pairs for row in pair.rows]).reshape(-1, n)
        size = np.linalg.norm(V, axis=1)
        assert np.all(np.abs(state.memory.gram - V @ V.T) <= 1e-12 * np.outer(size, size))
    assert seen > 10


@pytest.mark.parametrize("exact", [1.0, 0.0, 1e-5])
@LENGTHS
def test_errors_of_models_are_those_of_the_vectors(short, exact):
    """Also where y - B s cancels, to all digits or to a few."""
    rng, n = np.random.default_rng(5), 35
    B, dense = matrix(rng, n, 5, 0.4)
    p, s = rng.standard_normal(n), rng.standard_normal(n)
    y_h, y_g = dense @ s + exact * rng.standard_normal(n), rng.standard_normal(n)
    step = Step.between(
        Known(p, 1.0, 1.0, np.zeros(n), np.zeros(n)),
        Known(p + s, 1.0, 1.0, y_h, y_g),
        EUCLIDEAN,
    )
    products = StepProducts(step, EUCLIDEAN)
    rounding = 1e-13 * np.linalg.norm(y_h)
    for part in (1.0, 0.3, 0.0):
        y = y_h + (1.0 - part) * y_g
        expected = np.linalg.norm(y - dense @ step.s)
        assert products.error(B, part) == pytest.approx(expected, rel=1e-8, abs=rounding)
        plain = np.linalg.norm(y - 0.2 * step.s)
        assert products.error(LowRank(0.2), part) == pytest.approx(plain, rel=1e-8)
    assert products.bend(B) == pytest.approx(step.s @ dense @ step.s, rel=1e-10)
    huge = B.times(1e200)  # squares overflow, and the error does not
    expected = np.linalg.norm(y_h * 1e-200 - dense @ step.s) * 1e200
    assert products.error(huge, 1.0) == pytest.approx(expected, rel=1e-8)


@LENGTHS
def test_the_model_is_applied_once_per_direction(short, monkeypatch):
    """Points of a line search read no rows; a step reads them twice, the first gradient once."""
    rng, n = np.random.default_rng(7), 50
    B, _ = matrix(rng, n, 6, 0.1)
    rows, reads = (ShortRows if short else LongRows), dict.fromkeys(READS, 0)

    def counted(name):
        original = getattr(rows, name)

        def call(self, *args):
            reads[name] += 1
            return original(self, *args)

        monkeypatch.setattr(rows, name, call)

    for name in READS:
        counted(name)
    asked, weights = [], np.geomspace(1e-3, 1e3, n)

    def ask(v):
        asked.append(v)
        return np.nan, weights * np.sinh(np.clip(v, -20.0, 20.0))

    steps = []

    def leave(at, residual):
        steps.append(residual)
        return False

    v, zero = 3.0 * rng.standard_normal(n), np.zeros(n)
    start = Point(v, np.nan, ask(v)[1], zero)
    run = descend(Phi(ask, B, 0.0, EUCLIDEAN), start, 1e-3, InnerPairs(), leave, most=60, memory=8)
    assert run.calls == len(asked) - 1 > len(steps) > 5
    assert reads["read"] == 1 + len(steps)
    # the last direction may find no point
    assert reads["direction"] in (len(steps), len(steps) + 1)
    np.testing.assert_allclose(run.end.linear, B(run.end.v - v), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("count", [1, 4, 7])
@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize("n", [5, 70_001])
def test_compiled_rows(n, count, vectors):
    rng = np.random.default_rng(count)
    V, X, C = (rng.standard_normal(shape) for shape in ((count, n), (vectors, n), (vectors, count)))
    rows, out = list(V), [x.copy() for x in X]
    addresses = np.array([compiled.address(row) for row in rows])
    bound = 1e-13 * n
    np.testing.assert_allclose(compiled.dots(addresses, list(X)), X @ V.T, rtol=0, atol=bound)
    compiled.add_to(addresses, C[:2], out[:2])
    np.testing.assert_allclose(out[:2], (X + C @ V)[:2], rtol=0, atol=1e-13)


@pytest.mark.parametrize("row", [np.zeros(6)[::2], np.zeros(3, dtype=np.float32)])
def test_rows_that_cannot_be_read_are_refused(row):
    with pytest.raises(ValueError, match="contiguous"):
        compiled.address(row)


@pytest.mark.parametrize("geometry", [None, gt.geometry.Diagonal(np.linspace(0.5, 2.0, 60))])
def test_long_rows_give_the_same_run(geometry, monkeypatch):
    """To rounding, while it has not grown: over the first calls of h."""
    h, g = separable(60)
    stop = gt.stop.Calls({"h.grad": 8})
    points = []
    for short in (rows_module.SHORT, 0):
        monkeypatch.setattr(rows_module, "SHORT", short)
        res = gt.minimize(h, g, np.zeros(60), method="sae-qn", stop=stop, geometry=geometry)
        points.append(res.x)
    np.testing.assert_allclose(*points, rtol=1e-6, atol=1e-8)
