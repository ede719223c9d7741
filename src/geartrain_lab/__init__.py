"""The laboratory: problems, runs, tables and reports that measure the library.

It imports the library; only the command line imports it.

============  =====================================================================================
module        what it has
============  =====================================================================================
problems      every problem f = h + g of the benchmarks and experiments, built in one place
harness       solvers on problems to targets -> a table of calls and seconds; all benches use it
chart         the description of a figure; `static` draws it by matplotlib, `report` by plotly
runner        a run: (problem, method, seed, budget) -> a curve of calls, seconds and f - f*
store         tables on disk
tables        what the tables say: calls to reach an accuracy, ratios, Tables 1 and 2 of the paper
experiments   the experiments of Section 5 of the paper
benches       ``geartrain bench NAME``, a file each
seconds       the user's clock against the best solver for each of many kinds of problems
laws          exponents of the oracle calls in the constants: ``python -m geartrain_lab.laws NAME``
report        figures and a page from the tables
reproduce     runs the experiments and writes the report
============  =====================================================================================
"""
