r"""
Deblur a photograph with few blurs
==================================

.. math:: \min_x \; \tfrac12\|Kx - b\|^2
          + \lambda \sum_i \bigl(\sqrt{\|(Dx)_i\|^2 + \delta^2} - \delta\bigr)

h is the first term. Its gradient asks for one blur K and one adjoint K'. g is the smoothed total
variation, D the differences to the pixel below and to the right. g is cheap and badly conditioned:
its L is :math:`8\lambda/\delta`, that of h is 1. In tomography, microscopy or weather K is a
simulator and all the time goes into it. Here K is a Gaussian filter by FFT, a stand-in that costs
no more than g: look at the calls, not at the seconds.

Four methods start from the blurred picture:

*pqn*
    `geartrain.methods.ProximalQuasiNewton`, which ``method="auto"`` chooses when h is said to cost
    100 times as much.
*L-BFGS*
    SciPy's, on the sum.
*FISTA, prox*
    A gradient step on h, then the proximal step on g, which has no formula and is computed by inner
    iterations that ask g only. This is `geartrain.methods.AFB` with a strict error rule.
*FISTA, sum*
    Both terms are smooth, so FISTA can also take h + g as its smooth part and nothing as the
    other. Then it is `geartrain.methods.FGM`, with the step of L_h + L_g.

Both FISTAs restart their momentum when it points uphill, which helps them here.

The photograph is china.jpg from scikit-learn's sample images (by danielbuechele, CC BY 2.0), a
part of it in grey at half the resolution. The blur that made b is the one that is undone, so the
restoration is easier than in life; for the counts that does not matter.

Run it by ``python examples/deblurring.py``; ``--help`` lists the options.
"""

# %%
# Options
# -------
from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.datasets import load_sample_image

import geartrain as gt

Array = NDArray[Any]

parser = argparse.ArgumentParser(description="Deblur a photograph with few blurs.")
parser.add_argument("--side", type=int, default=128, help="pixels of a side, at most 200 (128)")
parser.add_argument("--weight", type=float, default=2e-3, help="of the total variation (0.002)")
parser.add_argument("--smooth", type=float, default=1e-3, help="its smoothing delta (0.001)")
parser.add_argument("--noise", type=float, default=0.02, help="standard deviation (0.02)")
parser.add_argument("--quick", action="store_true", help="a picture of 48 x 48")
parser.add_argument("--out", default="out/examples", help="folder of the pictures; '' for none")
args = parser.parse_args()
if not 16 <= args.side <= 200:
    parser.error("--side must be between 16 and 200")
side = 48 if args.quick else args.side
n = side * side

# %%
# The picture
# -----------
photograph = load_sample_image("china.jpg").mean(axis=2) / 255.0
part = photograph[20 : 20 + 2 * side, 130 : 130 + 2 * side]
image = part.reshape(side, 2, side, 2).mean(axis=(1, 3))

width = 1.5  # of the blur, in pixels
wave = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
transfer = np.exp(-2.0 * (np.pi * width * wave) ** 2)


def blur(x: Array) -> Array:
    """A Gaussian filter with periodic borders; it is its own adjoint."""
    return np.fft.irfft2(transfer * np.fft.rfft2(x.reshape(side, side)), s=(side, side)).ravel()


K = LinearOperator((n, n), matvec=blur, rmatvec=blur, dtype=np.float64)
rng = np.random.default_rng(0)
b = K @ image.ravel() + args.noise * rng.standard_normal(n)

# %%
# The two terms
# -------------


def fit(x: Array) -> tuple[float, Array]:
    """h: 1/2 |Kx - b|^2 and its gradient."""
    residual = K @ x - b
    return 0.5 * float(residual @ residual), K.rmatvec(residual)


def variation(x: Array) -> tuple[float, Array]:
    """g: the smoothed total variation and its gradient."""
    X = x.reshape(side, side)
    down, right = np.zeros_like(X), np.zeros_like(X)
    down[:-1], right[:, :-1] = np.diff(X, axis=0), np.diff(X, axis=1)
    size = np.sqrt(down**2 + right**2 + args.smooth**2)
    value = args.weight * float(np.sum(size - args.smooth))
    down, right = down / size, right / size
    grad = -down - right
    grad[1:] += down[:-1]
    grad[:, 1:] += right[:, :-1]
    return value, args.weight * grad.ravel()


h = gt.Term(fit, n=n, L=1.0)
g = gt.Term(variation, n=n, L=8.0 * args.weight / args.smooth)

# %%
# The runs
# --------
# f* is from runs far beyond the others. Then every method runs until f - f* is 1e-5 of what it was
# at the start, or has asked h 1,000 times.
restart = gt.methods.GradientTest()
prices = {"h.grad": 100.0, "g.grad": 1.0}
methods: dict[str, tuple[Any, dict[str, Any]]] = {
    "pqn (auto)": ("auto", {"prices": prices}),
    "L-BFGS": (gt.ScipyLBFGS(10), {}),
    "FISTA, prox": (
        gt.methods.Restarted(gt.methods.AFB(zeta=0.1, inner=gt.inner.LBFGS()), restart),
        {},
    ),
    "FISTA, sum": (gt.methods.Restarted(gt.methods.FGM(mu=0.0), restart), {}),
}
far = gt.stop.any_of(gt.stop.Gradient(rel=1e-6), gt.stop.Calls({"h.grad": 3000}))
reference = [
    gt.minimize(h, g, b, method=m, stop=far)
    for m in (gt.ScipyLBFGS(20), gt.methods.ProximalQuasiNewton())
]
f_star = min(res.fun for res in reference)
f_0 = fit(b)[0] + variation(b)[0]

enough = gt.stop.Value(f_star + 1e-5 * (f_0 - f_star))
rule = gt.stop.any_of(enough, gt.stop.Calls({"h.grad": 1000}))
results = {name: gt.minimize(h, g, b, method=m, stop=rule, **o) for name, (m, o) in methods.items()}
gaps = {name: (res.history["f"] - f_star) / (f_0 - f_star) for name, res in results.items()}
print(results["pqn (auto)"].plan)

# %%
# The table: gradients of h and of g until f - f* is 1e-3 and 1e-5 of its start. The last column is
# how many times as much as a gradient of g one of h must cost for the bill of pqn to be the
# smaller one at 1e-5; 0 where pqn asks both less.


def calls(name: str, target: float) -> tuple[float, float]:
    """Gradients of h and g when `target` is first reached, infinite if it is not."""
    hit = np.flatnonzero(gaps[name] <= target)
    if not hit.size:
        return math.inf, math.inf
    history = results[name].history
    return float(history["h.grad"][hit[0]]), float(history["g.grad"][hit[0]])


table = {name: calls(name, 1e-3) + calls(name, 1e-5) for name in methods}
print(f"\n{'':14s}{'1e-3: h':>10s}{'g':>8s}{'1e-5: h':>10s}{'g':>8s}{'even at':>10s}")
mine = table["pqn (auto)"]
for name, (h3, g3, h5, g5) in table.items():
    even = f"{max((mine[3] - g5) / (h5 - mine[2]), 0.0):.1f}" if mine[2] < h5 < math.inf else "-"
    print(f"{name:14s}{h3:>10.0f}{g3:>8.0f}{h5:>10.0f}{g5:>8.0f}{even:>10s}")

# %%
# The pictures. PSNR is the peak signal-to-noise ratio, higher is better.


def psnr(x: Array) -> float:
    """In decibels, for pixels in [0, 1]."""
    return float(-10.0 * np.log10(np.mean((x - image.ravel()) ** 2)))


x = results["pqn (auto)"].x
quality = {"blurred": psnr(b), "result": psnr(x)}
print(f"PSNR: blurred {quality['blurred']:.2f} dB, result {quality['result']:.2f} dB")

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained")
shown = {
    "original": image.ravel(),
    f"blurred, noise {args.noise:g}: {quality['blurred']:.1f} dB": b,
    f"result: {quality['result']:.1f} dB": x,
}
for ax, (title, pixels) in zip(axes, shown.items(), strict=True):
    ax.imshow(pixels.reshape(side, side), cmap="gray", vmin=0, vmax=1)
    ax.set_title(title, fontsize=11)
    ax.set_axis_off()

# %%
# What it took.
colours = ("#009E73", "#444444", "#0072B2", "#E69F00")
curves, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), sharey=True, layout="constrained")
for ax, key, words in zip(panels, ("h.grad", "g.grad"), ("h (blur)", "g"), strict=True):
    for (name, gap), colour in zip(gaps.items(), colours, strict=True):
        ax.loglog(results[name].history[key], gap, color=colour, label=name)
    ax.set_xlabel(f"gradients of {words}")
    ax.grid(True, which="major", alpha=0.3)
panels[0].set_ylim(1e-5, 1.2)
panels[0].set_ylabel("$(f - f^*)/(f_0 - f^*)$")
panels[0].legend(frameon=False)

# %%
# Brightness is not negative
# --------------------------
# In a dark picture many pixels are 0, and the restoration must not go below. The constraint x >= 0
# is added to g as a term of its own; pqn asks for few blurs with it, too. Its rival is SciPy's
# L-BFGS-B, which has bounds.
dark = np.maximum(image - 0.5, 0.0)
b_dark = K @ dark.ravel() + args.noise * rng.standard_normal(n)


def fit_dark(x: Array) -> tuple[float, Array]:
    """h for the dark picture."""
    residual = K @ x - b_dark
    return 0.5 * float(residual @ residual), K.rmatvec(residual)


h_dark = gt.Term(fit_dark, n=n, L=1.0)
bounded = g + gt.NonNegative()
small = gt.stop.any_of(gt.stop.Gradient(rel=1e-3), gt.stop.Calls({"h.grad": 1000}))
night = {
    "pqn": gt.minimize(h_dark, bounded, b_dark, prices=prices, stop=small),
    "L-BFGS-B": gt.minimize(h_dark, bounded, b_dark, method=gt.ScipyLBFGS(20), stop=small),
}
for name, res in night.items():
    print(
        f"x >= 0, {name}: {res.calls['h.grad']} gradients of h, {res.calls['g.grad']} of g, "
        f"{np.count_nonzero(res.x == 0.0)} of {n} pixels are 0"
    )

if args.out:
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "deblurring.png", dpi=80)
    curves.savefig(folder / "deblurring_calls.png", dpi=100)
    print(f"pictures: {folder / 'deblurring.png'}, {folder / 'deblurring_calls.png'}")
