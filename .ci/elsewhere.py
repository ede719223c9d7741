"""Run the tests as other machines would round: other kernels of BLAS, NumPy and Numba.

Every line of `MACHINES` imitates one by environment variables that OpenBLAS, NumPy and Numba read.
A machine that this processor cannot imitate is left out with a line. Arguments go to pytest.
"""

import json
import os
import subprocess
import sys

# Kernels of OpenBLAS and its threads, whether NumPy uses more than its baseline, Numba's processor.
MACHINES = [
    ("Nehalem", 1, False, "generic"),
    ("SkylakeX", 2, True, None),
    ("Haswell", 1, False, None),
    ("Sandybridge", 2, True, None),
]
ENOUGH = 3  # of these, the first ones that this processor can imitate
# What is in effect, printed by a process that also tries the instructions.
PROBE = """
import json, numpy as np, scipy.linalg, threadpoolctl
A = np.linspace(0.0, 1.0, 10_000).reshape(100, 100)
np.exp(A @ A) @ A[0] + scipy.linalg.lu(A)[2]
found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
blas = {lib.get("architecture") for lib in threadpoolctl.threadpool_info()}
print(json.dumps([" ".join(sorted(map(str, blas))), found]))
"""


def probe(environment: dict[str, str]) -> tuple[str, list[str]] | None:
    """Kernels of BLAS and extensions of NumPy in effect; None where the processor lacks them."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, env=environment)
    return None if done.returncode else tuple(json.loads(done.stdout))


def main() -> int:
    """Run pytest on every machine; 0 if all passed."""
    _, extensions = probe(dict(os.environ)) or ("", [])
    passed, failed = 0, []
    for kernels, threads, simd, numba in MACHINES:
        if passed + len(failed) == ENOUGH:
            break
        environment = {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": str(threads)}
        if threads > 1:  # more threads than cores would wait for each other in busy loops
            environment["OPENBLAS_THREAD_TIMEOUT"] = "4"
        if not simd and extensions:
            environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(extensions)
        if numba:
            environment["NUMBA_CPU_NAME"] = numba
        name = " ".join(f"{key}={value!r}" for key, value in environment.items())
        environment = {**os.environ, **environment}
        if (seen := probe(environment)) is None or kernels not in seen[0]:
            print(f"left out, not on this processor: {name}", flush=True)
            continue
        print(
            f"{name}\n  in effect: BLAS {seen[0]}, NumPy {' '.join(seen[1]) or 'baseline'}",
            flush=True,
        )
        command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
        if subprocess.run(command, env=environment).returncode:
            failed.append(name)
        else:
            passed += 1
    print("\n".join([f"imitated machines: {passed} passed, {len(failed)} failed", *failed]))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
