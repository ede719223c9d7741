// Tables of the class "sortable" sort by a click on the name of a column.
(function () {
  // The number at the beginning of a cell; marks such as ">" are skipped, words come last.
  function key(cell) {
    const text = cell.textContent.trim();
    const number = text.replace(/,/g, "").match(/^[<>t]?\s*([-+]?\d+(\.\d+)?(e[-+]?\d+)?)(k?)/i);
    return number ? parseFloat(number[1]) * (number[4] ? 1000 : 1) : text;
  }

  function compare(a, b) {
    if (typeof a === typeof b) {
      return a < b ? -1 : a > b ? 1 : 0;
    }
    return typeof a === "number" ? -1 : 1;
  }

  function sortBy(table, column) {
    const head = table.tHead.rows[0].cells[column];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) {
      other.removeAttribute("aria-sort");
    }
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => compare(key(a.cells[column]), key(b.cells[column])) * (down ? -1 : 1));
    table.tBodies[0].append(...rows);
  }

  document.addEventListener("DOMContentLoaded", function () {
    for (const table of document.querySelectorAll("table.sortable")) {
      Array.from(table.tHead.rows[0].cells).forEach(function (cell, column) {
        cell.querySelector("button").addEventListener("click", () => sortBy(table, column));
      });
    }
  });
})();
