"use strict";
/* Tables sort by their headers and filter by name; folds open on paper, and where a link leads into
   one. Without this script the page is read as it is. */
(() => {
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const status = document.getElementById("status");

  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.v;
    return value === undefined ? cell.textContent.trim() : value === "" ? null : Number(value);
  };

  const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);

  const sort = (table, heads, column) => {
    const head = heads[column];
    const first = head.classList.contains("t") ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const keyed = Array.from(body.rows, (row) => [keyOf(row, column), row]);
    /* what has no number comes last in either direction */
    keyed.sort(([a], [b]) =>
      a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b),
    );
    body.append(...keyed.map(([, row]) => row));
    for (const one of heads) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    status.textContent = `Sorted by ${head.textContent.trim()}, ${order}.`;
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, heads, column));
      head.append(button);
    });
  }

  for (const box of document.querySelectorAll(".filter")) {
    const input = box.querySelector("input");
    const output = box.querySelector("output");
    const rows = Array.from(document.getElementById(input.dataset.table).tBodies[0].rows);
    const names = rows.map((row) => row.cells[0].textContent.toLocaleLowerCase());
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLocaleLowerCase();
      let found = 0;
      rows.forEach((row, i) => {
        row.hidden = !names[i].includes(wanted);
        found += !row.hidden;
      });
      output.textContent = wanted ? `${found} of ${rows.length}` : "";
    });
    box.hidden = false;
  }

  const folds = Array.from(document.querySelectorAll("details"));
  let closed = [];
  const unfold = () => {
    closed.push(...folds.filter((fold) => !fold.open));
    for (const fold of closed) fold.open = true;
  };
  const refold = () => {
    for (const fold of closed) fold.open = false;
    closed = [];
  };
  addEventListener("beforeprint", unfold);
  addEventListener("afterprint", refold);
  matchMedia("print").addEventListener("change", (paper) => (paper.matches ? unfold() : refold()));

  const follow = () => {
    const found = document.getElementById(location.hash.slice(1));
    const fold = found && found.closest("details");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", follow);
  follow();
})();
