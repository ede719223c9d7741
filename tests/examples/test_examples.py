"""The examples in their quick form, and whether what they print is so."""

import runpy
import sys
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits

pytestmark = [
    pytest.mark.outside,  # whole scripts
    pytest.mark.same_everywhere,  # what they claim holds by wide margins
]

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, monkeypatch, *options):
    """The names that the script leaves behind, as if called from a shell."""
    monkeypatch.setattr(sys, "argv", [name, *options])
    with mpl.rc_context({"backend": "agg"}):
        left = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    plt.close("all")
    return left


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Every example once, without the data folder, by name; and the folder of the pictures.

    The total variation of the deblurring is smoother than by default, which takes fewer iterations.
    """
    out = tmp_path_factory.mktemp("examples")
    made = {}

    def example(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.delenv("GEARTRAIN_DATA", raising=False)
                more = ["--smooth", "0.01"] if name == "deblurring.py" else []
                made[name] = run(name, patch, "--quick", "--out", str(out), *more)
        return made[name], out

    return example


def is_picture(path):
    pixels = plt.imread(path)
    return pixels.ndim == 3 and min(pixels.shape[:2]) > 200 and np.ptp(pixels) > 0.9


def test_toll(quick):
    left, out = quick("toll.py")
    junctions, arcs, tolled = left["junctions"], left["arcs"], left["tolled"]
    for res in (left["before"], left["after"]):
        assert res.success and (res.x >= 0.0).all()
        np.testing.assert_allclose(left["A"] @ res.x, left["b"], atol=1e-8)
    assert 3 * left["before"].calls["P.operator"] < left["rival"].calls["P.operator"]
    assert 3 * left["before"].grad_norm < left["rival"].grad_norm
    before, after = left["flows"]["before"], left["flows"]["after"]
    assert after[tolled].sum() < 0.9 * before[tolled].sum()
    assert left["minutes"]["after"] < left["minutes"]["before"]
    # The simulator is monotone, and no gradient.
    rng = np.random.default_rng(0)
    u, v = rng.uniform(0.0, 3.0, (2, arcs))
    assert (junctions(u) - junctions(v)) @ (u - v) > 0.0
    waits = left["waits"]
    assert np.linalg.eigvalsh(waits + waits.T).min() >= -1e-12
    assert np.abs(waits - waits.T).max() > 0.1
    assert is_picture(out / "toll.png")


# Paper: adversarial attack
def test_attack_changes_the_verdict(quick):
    left, out = quick("black_box_attack.py")
    box = left["box"]
    images = load_digits().data / 16.0
    for attacks in left["results"].values():
        assert len(attacks) == 3
        for image, label, attack in zip(box.images, box.labels, attacks, strict=False):
            assert (images == image).all(axis=1).any()  # a digit as it was
            assert np.isfinite(attack.x).all()
            seen = np.clip(image + attack.x, 0.0, 1.0)
            assert box.scores(image).argmax() == label != box.scores(seen).argmax()
            assert 0.2 < np.linalg.norm(seen - image) < 2.0
    rates = [row[0] for row in left["table"].values()]
    assert rates == [1.0, 1.0]
    assert is_picture(out / "black_box_attack.png")


def test_attack_counts_are_what_the_black_box_saw(quick):
    left, _ = quick("black_box_attack.py")
    n, separated, whole = left["n"], left["results"]["separated"], left["results"]["whole"]
    for one, two in zip(separated, whole, strict=True):
        assert one.asked == one.questions  # f at the end of the run is on the bill
        assert two.asked == two.questions  # partial derivatives only: f is not known
        # An iteration asks n coordinate steps and a test, 4 n questions at least, and h once.
        assert 1 <= one.h_calls <= (one.questions - 2 * n) / (4 * n)
        # h is asked in every step and with every gradient; a gradient of g takes n differences.
        gradients, rest = divmod(two.questions // 2 - two.h_calls, n - 1)
        assert rest == 0 and gradients >= 2
        assert two.questions >= one.questions
        assert two.h_calls > n * one.h_calls
        assert two.f < 1.01 * one.f < 1.3 * two.f
        assert two.first <= two.questions and one.first <= one.questions


def test_attack_states_the_constants_of_h(quick):
    left, _ = quick("black_box_attack.py")
    h, S = left["h"], left["S"]
    np.testing.assert_allclose(S @ S, S, atol=1e-12)
    values = np.linalg.eigvalsh(left["Q"])
    assert values.min() == pytest.approx(h.mu) and values.max() == pytest.approx(h.L)
    x = np.random.default_rng(0).standard_normal(h.n)
    value, grad = h.value_and_grad(x)
    literal = 0.5 * x @ x + 0.5 * left["rho"] * np.sum((x - S @ x) ** 2)
    assert value == pytest.approx(literal)
    np.testing.assert_allclose([h.coord(x, i) for i in range(h.n)], grad)


class Session:
    """Stands for onnxruntime's: ten linear scores of pixels up to 255."""

    W = np.random.default_rng(3).standard_normal((10, 784)).astype(np.float32)

    def __init__(self, path, options):
        assert path.endswith("mnist-8.onnx") and options.intra_op_num_threads == 1

    def get_inputs(self):
        return [type("Input", (), {"name": "Input3"})]

    def run(self, outputs, feed):
        pixels = feed["Input3"]
        assert pixels.shape == (1, 1, 28, 28) and pixels.dtype == np.float32
        assert pixels.min() >= 0.0 and pixels.max() <= 255.0
        return [pixels.reshape(1, 784) @ self.W.T]


def test_attack_reads_the_onnx_network(monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 28, 28), dtype=np.uint8)
    labels = (images.reshape(-1, 784) / 255.0 @ Session.W.T).argmax(axis=1).astype(np.uint8)
    labels[0] = (labels[0] + 1) % 10  # misclassified, so not attacked
    np.savez(tmp_path / "mnist_test_500.npz", images=images, labels=labels)
    (tmp_path / "mnist-8.onnx").touch()
    fake = ModuleType("onnxruntime")
    fake.InferenceSession, fake.SessionOptions = Session, type("Options", (), {})
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.setenv("GEARTRAIN_DATA", str(tmp_path))
    left = run("black_box_attack.py", monkeypatch, "--digits", "1", "--budget", "3", "--out", "")
    box = left["box"]
    assert len(box.labels) == 39 and left["n"] == 784
    assert len(set(box.labels[: len(set(labels))])) == len(set(labels))  # one of every class first
    assert left["results"]["separated"][0].wrong
    printed = capsys.readouterr().out
    assert "MNIST network (ONNX): 784 pixels" in printed and "missing" not in printed


def test_attack_without_onnxruntime_says_so(monkeypatch, tmp_path, capsys):
    for name in ("mnist-8.onnx", "mnist_test_500.npz"):
        (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setenv("GEARTRAIN_DATA", str(tmp_path))
    left = run("black_box_attack.py", monkeypatch, "--digits", "1", "--budget", "1", "--out", "")
    assert left["n"] == 64
    assert capsys.readouterr().out.startswith("onnxruntime is missing: a network of scikit-learn")


def test_deblurring(quick):
    left, out = quick("deblurring.py")
    table = left["table"]
    mine = table["pqn (auto)"]
    assert all(0 < count < np.inf for count in mine)
    for name in ("L-BFGS", "FISTA, sum"):  # no separation: both terms equally often
        assert table[name][0] == table[name][1] and table[name][2] == table[name][3]
    for res in left["results"].values():
        assert res.success and res.calls["h.grad"] == res.history["h.grad"][-1]
    assert left["quality"]["result"] > left["quality"]["blurred"] + 2.0
    assert is_picture(out / "deblurring.png") and is_picture(out / "deblurring_calls.png")


def test_deblurring_with_a_bound(quick):
    left, _ = quick("deblurring.py")
    mine, rival = left["night"]["pqn"], left["night"]["L-BFGS-B"]
    assert mine.success and rival.success
    for res in (mine, rival):
        assert (res.x >= 0.0).all() and np.count_nonzero(res.x == 0.0) > 100
    assert mine.fun == pytest.approx(rival.fun, rel=1e-3)


def test_emissions(quick):
    left, out = quick("emissions.py")
    res, rival, n = left["res"], left["rival"], left["n"]
    assert res.success and (res.x >= 0.0).all()
    assert rival[-1][1] <= res.fun  # SciPy has reached the same value
    assert np.linalg.norm(res.x - left["truth"].ravel()) < 0.1 * np.linalg.norm(left["truth"])
    rng = np.random.default_rng(0)
    x, d = rng.uniform(size=n), rng.standard_normal(n)
    for day in left["days"]:
        r = rng.standard_normal(960)
        assert day.measured(x) @ r == pytest.approx(x @ day.adjoint(r))
    _, slope = left["misfit"](x)
    up, down = (left["misfit"](x + t * d)[0] for t in (1e-4, -1e-4))
    assert (up - down) / 2e-4 == pytest.approx(slope @ d, rel=1e-6)  # h is a quadratic
    assert is_picture(out / "emissions.png")


def test_sparse_path(quick):
    left, out = quick("sparse_path.py")
    used, weights = left["used"], left["weights"]
    assert used[0] == 0 and used[-1] > 5 and (np.diff(weights) < 0).all()
    for weight, x in zip(weights, left["path"], strict=True):
        slope = left["psi"](weight).residual(x, left["h"].grad(x))
        assert np.linalg.norm(slope) <= 1e-6 * left["first"]
    assert left["warm"] > 0 and left["cold"] > 0
    assert is_picture(out / "sparse_path.png")


def test_deblurring_terms(quick):
    left, _ = quick("deblurring.py")
    h, g, K, n = left["h"], left["g"], left["K"], left["n"]
    rng = np.random.default_rng(0)
    x, d = rng.uniform(size=n), rng.standard_normal(n)
    assert K.matvec(x) @ d == pytest.approx(x @ K.rmatvec(d))  # the adjoint
    for term in (h, g):
        up, down = (term.value_and_grad(x + t * d)[0] for t in (1e-6, -1e-6))
        assert (up - down) / 2e-6 == pytest.approx(term.value_and_grad(x)[1] @ d, rel=1e-5)
        # L bounds the change of the gradient; the checkerboard is where g bends most.
        board = np.indices((left["side"],) * 2).sum(axis=0).ravel() % 2 * 1e-6
        for step in (1e-6 * d, board):
            change = term.value_and_grad(step)[1] - term.value_and_grad(0 * x)[1]
            assert np.linalg.norm(change) <= 1.0001 * term.L * np.linalg.norm(step - step.mean())
    assert left["f_star"] <= min(res.fun for res in left["results"].values())


def test_densities(quick, capsys):
    left, out = quick("log_density.py")
    assert np.isfinite(list(left["held_out"].values())).all()
    A, x, seen = left["A"], left["res"].x, left["seen"]
    pi = np.exp(left["log_probability"])
    assert pi.sum() == pytest.approx(1.0)
    # The model is right on average about every function, up to the pull of the prior.
    gap = A.T @ (seen - seen.sum() * pi) - x
    assert abs(gap).max() < 1e-4 * seen.sum()
    assert (np.asarray(A.sum(axis=1)) == 3.0).all()
    np.testing.assert_array_equal(seen + left["unseen"], left["counts"])
    assert left["per_word"] > left["uniform"] + 0.5
    assert (left["low"] <= left["density"]).all() and (left["density"] <= left["high"]).all()
    assert is_picture(out / "log_density.png")


def test_first_steps(monkeypatch):
    left = run("first_steps.py", monkeypatch)
    res, other = left["res"], left["other"]
    assert res.success and other.success and res.fun == pytest.approx(other.fun, rel=1e-6)
    assert f"{res.calls['h.grad']} gradients of h at 100" in res.plan


def test_three_prices(quick):
    left, out = quick("three_prices.py")
    results, bills = left["results"], left["bills"]
    assert all(res.success for res in results.values())
    calls = results["three levels"].calls
    assert 3 * calls["fine.grad"] < calls["coarse.grad"] < calls["g.grad"] / 3
    for name in ("fine > coarse + g", "fine + coarse > g", "FGM on the sum"):
        assert bills["three levels"] < bills[name]
    merged = results["fine + coarse > g"].calls
    assert merged["fine.grad"] == merged["coarse.grad"]
    # The adjoints, and the constants.
    n, rng = left["n"], np.random.default_rng(0)
    u = rng.standard_normal(n)
    for one in ("fine", "coarse"):
        a = rng.standard_normal(len(left[one](u)))
        assert left[one](u) @ a == pytest.approx(u @ left[f"{one}_adjoint"](a))
        term = left["h"][one]
        change = term.value_and_grad(u)[1] - term.value_and_grad(0 * u)[1]
        assert np.linalg.norm(change) <= 1.0001 * term.L * np.linalg.norm(u)
    assert np.linalg.norm(left["right"] - left["hessian"] @ left["u_star"]) < 1e-8
    assert is_picture(out / "three_prices.png")


def test_water_budget(quick):
    left, out = quick("water_budget.py")
    res, rival, A, x = left["res"], left["rival"], left["A"], left["res"].x
    assert res.success and res.fun <= rival.fun + 1e-5 * abs(rival.fun)
    assert (x >= 0.0).all() and (x <= 1.0).all()
    assert np.all(A @ x <= left["upper"] + 1e-8) and np.all(A @ x >= left["lower"] - 1e-8)
    assert 2 * left["calls"]["geartrain"] < left["calls"]["SLSQP"]
    # The gradient of the simulator, by a run backwards.
    d = np.random.default_rng(0).standard_normal(left["n"])
    up, down = (left["lost_harvest"](x + t * d)[0] for t in (1e-5, -1e-5))
    assert (up - down) / 2e-5 == pytest.approx(left["lost_harvest"](x)[1] @ d, rel=1e-4)
    # Shadow prices: signs, none where there is room, and what another run says.
    y, n_wells = left["y"], 3 * left["weeks"]
    assert (y[: 1 + n_wells] <= 0.0).all() and (y[1 + n_wells :] >= 0.0).all() and y[0] < 0.0
    room = np.minimum(left["upper"] - A @ x, A @ x - left["lower"]) > 1e-6
    assert not y[room].any()
    assert left["gained"] == pytest.approx(left["predicted"], rel=0.1)
    assert is_picture(out / "water_budget.png")
