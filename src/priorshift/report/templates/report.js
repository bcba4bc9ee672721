"use strict";
/* Tables sort by their headers and filter by name; a slider shows what another share would mean;
   folds open on paper, and where a link leads into one. Without this script the page is read as it
   is. */
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

  /* the same rule as in the table, from the same numbers: scores are flagged from the first step on
     whose adapted log-odds, moved to the new share, reach those of the cut */
  const slider = document.getElementById("what-if-share");
  if (slider) {
    const data = JSON.parse(document.getElementById("priorshift-data").textContent).what_if;
    const logit = (p) => Math.log(p / (1 - p));
    const figures = (value, most) => Number(value.toPrecision(most)).toString();
    const percent = (p) => `${p >= 0.0995 ? Math.round(100 * p) : figures(100 * p, 2)}%`;
    const between = (x, xs, ys, at) =>
      at === 0 ? ys[0] : ys[at - 1] + ((ys[at] - ys[at - 1]) * (x - xs[at - 1])) / (xs[at] - xs[at - 1]);
    const at = (share) => {
      const needed = logit(data.cut) - logit(share) + logit(data.share);
      const step = data.log_odds.findIndex((value) => value >= needed);
      if (step < 0) return { threshold: "none", alerts: "0%", missed: "100%", ppv: "–" };
      const [wrong, right] = data.above.map((side) => side[step]);
      const alerts = share * right + (1 - share) * wrong;
      return {
        threshold: figures(between(needed, data.log_odds, data.scores, step), 3),
        alerts: percent(alerts),
        missed: percent(1 - right),
        ppv: alerts > 0 ? percent((share * right) / alerts) : "–",
      };
    };
    const box = slider.closest(".slider");
    const show = () => {
      const share = 1 / (1 + Math.exp(-Number(slider.value)));
      box.querySelector("output").textContent = percent(share);
      slider.setAttribute("aria-valuetext", percent(share));
      for (const [what, value] of Object.entries(at(share))) {
        box.querySelector(`[data-what=${what}]`).textContent = value;
      }
    };
    slider.value = logit(data.now);
    slider.addEventListener("input", show);
    show();
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
