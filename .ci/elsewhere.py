"""Run the tests as other machines would round: other kernels of BLAS and NumPy, and salts.

Every line of `MACHINES` imitates one by environment variables that OpenBLAS and NumPy read,
and by a salt for ``tests/rounding.py``, which moves every counted answer by at most one unit in its
last place. Where this processor cannot imitate a machine, its salt is run alone. SALTS=new in the
environment draws 20 salts instead, SALTS=4711,4712 repeats these. Arguments go to pytest.
"""

import json
import os
import secrets
import shlex
import subprocess
import sys

# Kernels of OpenBLAS and its threads, and whether NumPy uses more than its baseline.
MACHINES = [
    ("Nehalem", 1, False),
    ("SkylakeX", 2, True),
    ("Haswell", 1, False),
    ("Sandybridge", 2, True),
]
ENOUGH = 3  # of these, the first ones that this processor can imitate, with the salts 1 to 3
SALT = "GEARTRAIN_TEST_SALT"
DRAWN = 20  # salts of SALTS=new
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


def imitated() -> list[dict[str, str]]:
    """The environments of `ENOUGH` machines, each with a salt of its own."""
    _, extensions = probe(dict(os.environ)) or ("", [])
    found: list[dict[str, str]] = []
    for kernels, threads, simd in MACHINES:
        environment = {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": str(threads)}
        if threads > 1:  # more threads than cores would wait for each other in busy loops
            environment["OPENBLAS_THREAD_TIMEOUT"] = "4"
        if not simd and extensions:
            environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(extensions)
        if (seen := probe({**os.environ, **environment})) is None or kernels not in seen[0]:
            print(f"left out, not on this processor: {named(environment)}", flush=True)
            continue
        print(f"{kernels}: BLAS {seen[0]}, NumPy {' '.join(seen[1]) or 'baseline'}", flush=True)
        found.append(environment)
    found = [*found, *({} for _ in range(ENOUGH))][:ENOUGH]
    return [{**environment, SALT: str(k)} for k, environment in enumerate(found, 1)]


def salted(wanted: str) -> list[dict[str, str]]:
    """The environments of given salts, or of `DRAWN` new ones."""
    new = (str(secrets.randbelow(10**6)) for _ in range(DRAWN))
    salts = list(new) if wanted == "new" else wanted.split(",")
    print(f"SALTS={','.join(salts)}", flush=True)
    return [{SALT: salt} for salt in salts]


def named(environment: dict[str, str]) -> str:
    """The assignments before a command that repeats a run."""
    return " ".join(f"{key}={value!r}" for key, value in environment.items())


def main() -> int:
    """Run pytest on every machine; 0 if all passed."""
    wanted = os.environ.get("SALTS")
    machines = salted(wanted) if wanted else imitated()
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    failed = []
    for environment in machines:
        print(named(environment), flush=True)
        if subprocess.run(command, env={**os.environ, **environment}).returncode:
            failed.append(named(environment))
    print(f"imitated machines: {len(machines) - len(failed)} passed, {len(failed)} failed")
    print(*(f"{name} {shlex.join(command)}" for name in failed), sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
