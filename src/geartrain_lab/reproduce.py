"""``geartrain reproduce``: run what is missing, then write the report from the tables."""

from __future__ import annotations

import sys
from pathlib import Path

from geartrain_lab.experiments import densities, kernel_svm, log_density
from geartrain_lab.harness import one_thread
from geartrain_lab.runner import progress, run_stage
from geartrain_lab.store import Store, pandas, writable_folder


def reproduce(
    what: str = "all",
    out: str | Path = "out/reproduce",
    *,
    quick: bool = False,
    data: str | Path | None = None,
) -> Path:
    """Run the experiments of Section 5 of the paper and write tables, figures and a report.

    The path of the report is returned. Tables in ``out/tables`` that were made with the same
    settings are kept. `quick` takes a minute or two instead of most of an hour: less data and lower
    accuracies. Data files are looked for in `data`, or else in the folder that GEARTRAIN_DATA
    names; without them, data that scikit-learn ships is used instead.
    """
    from geartrain_lab.report import build, findings
    from geartrain_lab.report.interactive import graph

    graph()  # a missing package is better told now than after the measurement
    if data is not None and not Path(data).is_dir():
        raise ValueError(f"--data {data} is not a folder")
    folder = writable_folder(out, "--out")
    store = Store(folder / "tables")
    writable_folder(folder / "figures", "--out")
    results = build.Results(quick=quick)
    rows = kernel_svm.load(data, quick) if what in ("all", "kernel-svm") else None
    svm = [] if rows is None else kernel_svm.stages(rows, quick)
    density = log_density.stages(quick) if what in ("all", "log-density") else []
    runs = sum(stage.runs for stage in (*svm, *density))
    with one_thread(), progress(runs) as status:
        if rows is not None:
            results.svm = pandas().concat([run_stage(s, store, status) for s in svm])
            results.spectra = kernel_svm.spectra(rows, store)
            results.stand_in = rows.stand_in
        if density:
            results.density = pandas().concat([run_stage(s, store, status) for s in density])
            results.observed, results.missing = densities.tables(data, store)
    print("drawing", file=sys.stderr)
    path = build.write(results, folder)
    for claim in findings.claims(results.svm, results.density):
        print(f"{claim.holds:5s}{claim.claim}: {claim.measured}")
    print(f"report: {path.resolve()}")
    return path
