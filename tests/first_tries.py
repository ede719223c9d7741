"""What new users type first, coming from SciPy, PyTorch, JAX, scikit-learn and imaging.

Run as a script, it tries all of them with the geartrain that is installed.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, rosen, rosen_der
from scipy.sparse.linalg import LinearOperator

import geartrain as gt

RNG = np.random.default_rng(0)
A = RNG.standard_normal((60, 9))
H = gt.LinearModel(A, np.sign(A[:, 0] + 0.3), loss="logistic")
G = gt.Quadratic(np.diag(np.logspace(-2, 2, 9)))


def refused(words: str, *args: object, **options: object) -> None:
    """minimize(*args, **options) ends with an error that has these words."""
    try:
        gt.minimize(*args, **options)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        told = str(error)
    else:
        raise AssertionError(f"{options} was accepted")
    assert words in told, f"{words!r} is not in {told!r}"


# From SciPy --------------------------------------------------------------------------------------


def try_keywords_of_scipy():
    refused("max_iter=", H, G, maxiter=10)
    refused("max_iter=", H, G, options={"maxiter": 10})
    refused("verbose=", H, G, disp=True)
    refused("tol=", H, G, gtol=1e-5)
    refused("tol=", H, G, ftol=1e-5)
    refused("gt.Term(fun, jac)", H, G, jac=True)
    refused("did you mean 'callback'", H, G, calback=print)


def try_bounds_and_constraints():
    box = gt.minimize(H, G, bounds=Bounds(0.0, 0.5))
    assert box.success and box.x.min() >= 0.0 and box.x.max() <= 0.5
    pairs = gt.minimize(H, G, bounds=[(0, 0.5)] * 8 + [(None, None)])
    assert pairs.success and pairs.x[:8].min() >= 0.0
    budget = gt.minimize(H, G, constraints=LinearConstraint(np.ones((1, 9)), 1.0, 1.0))
    assert budget.success and abs(budget.x.sum() - 1.0) < 1e-9
    assert budget.multipliers["rows"].shape == (1,)


def try_what_a_result_of_scipy_has():
    res = gt.minimize(H, G, method="lbfgs")
    assert res.nfev == res.njev == res.calls["h.grad"]
    np.testing.assert_allclose(res.jac, H.grad(res.x) + G.grad(res.x), atol=1e-9)


def try_fun_and_jac():
    term = gt.Term(rosen, rosen_der, convex=False, n=2)
    assert term.value(np.ones(2)) == 0.0 and not term.grad(np.ones(2)).any()
    both = gt.Term(lambda x: (rosen(x), rosen_der(x)), convex=False, n=2)
    assert both.value(np.ones(2)) == 0.0 and not both.grad(np.ones(2)).any()
    res = gt.minimize(term, gt.Quadratic(np.zeros((2, 2))), np.array([0.5, 0.2]))
    np.testing.assert_allclose(res.x, 1.0, atol=1e-3)


def try_short_prices():
    assert "100 times" in gt.minimize(H, G, prices={"h": 100, "g": 1}).plan


def try_names_of_methods():
    for name in ("PQN", "L-BFGS", "Auto", "r_sae"):
        assert gt.minimize(H, G, method=name, max_iter=3).nit <= 3
    refused("did you mean 'lbfgs'? Choose one of auto, ", H, G, method="L-BFGS-B")
    refused("did you mean 'fgm'?", H, G, method="FISTA")
    refused("did you mean 'katyusha'?", H, G, method="katusha")


def try_inner_methods_by_name():
    assert gt.minimize(H, G, method=gt.methods.ProximalQuasiNewton(inner="lbfgs")).success
    res = gt.minimize(G, H, method=gt.SAE(inner="katyusha"), max_iter=3)
    assert res.calls["g.component"] > 0
    table = gt.compare(G, H, methods=["sae", "fgm"], inner="katyusha", max_iter=3)
    assert table.to_pandas()["g.component"]["sae"] > 0
    refused("Or exchange h and g", H, G, method="sae", inner="katyusha")


# From imaging ------------------------------------------------------------------------------------


def try_images():
    refused("gt.HuberTV((3, 3)", G, gt.TotalVariation(0.1), np.zeros((3, 3)))
    blur = LinearOperator((60, 9), matvec=lambda x: A @ x, rmatvec=lambda y: A.T @ y)
    for operator in (A, blur):
        h = gt.LinearModel(operator, A @ np.ones(9), loss="squared")
        for psi in (gt.HuberTV((3, 3), 0.01, 0.01), gt.NonNegative()):
            res = gt.minimize(h, psi, np.zeros((3, 3)))
            assert res.success and res.x.shape == (3, 3)


# From data science -------------------------------------------------------------------------------


def try_counts_and_weights():
    h = gt.LinearModel(A, np.arange(60) % 4, loss="poisson", sample_weight=np.arange(60))
    assert gt.minimize(h, G).success
    try:
        gt.LinearModel(A, np.arange(60), los="poisson")
    except TypeError as error:
        told = str(error)
    assert "loss, l2, intercept, sample_weight" in told


def try_to_look_around():
    assert "minimize" in dir(gt) and "Any" not in dir(gt)
    assert all(hasattr(gt, name) for name in dir(gt))


# From PyTorch and JAX ----------------------------------------------------------------------------


def _converged_in_single_precision(term: gt.Term) -> None:
    res = gt.minimize(term, gt.Quadratic(1e-2 * np.eye(20)))
    assert res.success, res
    assert "h answers in single precision" in res.message


def try_pytorch_in_single_precision():
    try:
        import torch
    except ImportError:
        return
    X, y = torch.tensor(A[:, :5], dtype=torch.float32), torch.arange(60) % 4
    fit = torch.nn.functional.cross_entropy
    _converged_in_single_precision(
        gt.from_torch(lambda w: fit(X @ w.reshape(5, 4), y), n=20, convex=True)
    )


def try_jax_in_single_precision():
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return
    if jax.config.jax_enable_x64:
        return
    X = jnp.asarray(RNG.standard_normal((60, 20)), dtype=jnp.float32)
    _converged_in_single_precision(
        gt.from_jax(lambda w: jnp.mean(jnp.logaddexp(0.0, -X @ w)), n=20)
    )


TRIES = {name: tried for name, tried in list(globals().items()) if name.startswith("try_")}

if __name__ == "__main__":
    print("geartrain from", gt.__file__)
    for name, tried in TRIES.items():
        tried()
        print("ok", name)
    sys.exit(0)
