"""Kernel SVM on the gas sensors: calls to f - f* <= 1e-3, SAE with Katyusha against AGS.

Banana against wine, 3,032 rows; RBF kernel with gamma = 0.1, lambda = 0.01, smoothing mu = 0.1. A
pass is one gradient of g or m component gradients.

    GEARTRAIN_DATA=DIR python benchmarks/kernel_svm_counts.py
"""

import geartrain as gt
from geartrain_lab.problems import gas_sensors_svm, kernel_svm_minimum


def main() -> None:
    h, g = gas_sensors_svm()
    f_star = kernel_svm_minimum(h, g)
    print(f"m = {g.m}, L_h = {h.L:.4g}, L_g = {g.L:.5g}, mean L_k = {g.L_components.mean():.5g}")
    ours = {"L": 2.0 * h.L, "sigma": 0.9, "accuracy": 0.5}
    methods = {
        "AGS": gt.methods.AGS(),
        "SAE, Katyusha; L = 2 L_h, sigma = 0.9": gt.SAE(**ours, inner=gt.Katyusha()),
        "SAE, Katyusha; L = L_h, sigma = 1/2": gt.SAE(inner=gt.Katyusha()),
        "SAE, loopless Katyusha; L = 2 L_h, sigma = 0.9": gt.SAE(
            **ours, inner=gt.inner.LKatyusha()
        ),
        "SAE, Varag; L = 2 L_h, sigma = 0.9": gt.SAE(**ours, inner=gt.inner.Varag()),
        "SC-SAE, Katyusha": gt.methods.SCSAE(inner=gt.Katyusha()),
    }
    print(f"{'method':48}{'h.grad':>8}{'per AGS':>9}{'passes':>9}{'per AGS':>9}{'f - f*':>11}")
    base = None
    for name, method in methods.items():
        stop = gt.stop.Value(f_star + 1e-3)
        res = gt.minimize(h, g, method=method, stop=stop, L_h=h.L, L_g=g.L, max_iter=1000)
        n_h = res.calls["h.grad"]
        passes = res.calls["g.grad"] + res.calls["g.component"] / g.m
        base = base or (n_h, passes)
        print(
            f"{name:48}{n_h:8d}{n_h / base[0]:9.2f}{passes:9.0f}{passes / base[1]:9.3f}"
            f"{res.fun - f_star:11.2e}{'' if res.success else '  ' + res.message}",
            flush=True,
        )


if __name__ == "__main__":
    main()
