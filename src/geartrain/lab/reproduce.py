"""``geartrain reproduce``: run what is missing, then draw from the tables."""

from __future__ import annotations

import contextlib
from pathlib import Path

from geartrain.lab import tables
from geartrain.lab.experiments import densities, kernel_svm, log_density
from geartrain.lab.runner import run_stage
from geartrain.lab.status_line import StatusLine
from geartrain.lab.store import Store, pandas


def reproduce(
    what: str = "all",
    out: str | Path = "out/reproduce",
    *,
    quick: bool = False,
    data: str | Path | None = None,
) -> Path:
    """Run the experiments of Section 5 and write tables, figures and a report.

    Parameters
    ----------
    what : {"all", "kernel-svm", "log-density"}
        Which of them.
    out : path
        Folder for ``tables``, ``figures`` and ``report.html``. Tables that are there and were made
        with the same settings are kept.
    quick : bool
        About a minute instead of a quarter of an hour: fewer rows, shorter limits.
    data : path, optional
        Folder with data files; that named by GEARTRAIN_DATA if not given.

    Returns
    -------
    Path
        Of the report.
    """
    from geartrain.lab.report import build
    from geartrain.lab.report.interactive import graph

    graph()  # a missing package is better told now than after a quarter of an hour
    if data is not None and not Path(data).is_dir():
        raise ValueError(f"--data {data} is not a folder")
    folder = Path(out)
    store = Store(folder / "tables")
    results = build.Results()
    svm = kernel_svm.stages(data, quick) if what in ("all", "kernel-svm") else []
    density = log_density.stages(quick) if what in ("all", "log-density") else []
    progress = StatusLine(sum(stage.seconds for stage in (*svm, *density)))
    with _one_core():
        if svm:
            results.svm = pandas().concat([run_stage(s, store, progress) for s in svm])
            results.spectra = kernel_svm.spectra(data, quick, store)
            if "digits" in results.svm.data.iloc[0]:
                results.notes.append(
                    "The gas sensor data were not found, so the kernel SVM shows scikit-learn's "
                    "digits, odd against even; set GEARTRAIN_DATA or --data."
                )
        if density:
            results.density = pandas().concat([run_stage(s, store, progress) for s in density])
            results.observed, missing = densities.tables(data, store)
            results.notes += missing
    progress.note("drawing")
    path = build.write(results, folder, quick=quick)
    for line in tables.lines(results.svm, results.density):
        print(line)
    print(f"report: {path.resolve()}")
    return path


def _one_core() -> contextlib.AbstractContextManager[object]:
    """Products by BLAS on one core, like the compiled loops; as they are without threadpoolctl."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(1)
