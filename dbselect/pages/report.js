"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const slider = byId("slider"), budget = byId("budget");
  const { most, constant } = data.axis;
  // As in the axis of the chart: linear, or log(1 + cost / constant).
  const place = (cost) => constant === null ? cost / most
    : Math.log1p(cost / constant) / Math.log1p(most / constant);
  const costAt = (share) => share >= 1 ? most : constant === null ? share * most
    : constant * Math.expm1(share * Math.log1p(most / constant));
  const number = (value, digits = 6) => value === null ? ""
    : String(Number(value.toPrecision(digits)));

  // As `at` chooses: the longest prefix within the budget; where all was given back in the end,
  // the first within it after all was held.
  function stepWithin(limit) {
    const spent = data.steps.map((step) => step.spent);
    const room = limit * (1 + data.slack);
    if (spent[spent.length - 1] > 0) {
      return spent.reduce((last, cost, step) => cost <= room ? step : last, 0);
    }
    const full = spent.indexOf(Math.max(...spent));
    return spent.findIndex((cost, step) => step >= full && cost <= room);
  }

  function show(limit) {
    const at = stepWithin(limit), step = data.steps[at], next = data.steps[at + 1];
    byId("step").textContent = at;
    byId("spent").textContent = number(step.spent);
    byId("groups").textContent = step.groups.join(", ") || "none: the model without columns";
    byId("r2").textContent = number(step.r2);
    byId("held").textContent = step.held === null ? "not known" : number(step.held)
      + (step.error === null ? "" : " \u00b1 " + number(step.error, 2));
    byId("next").textContent = !next ? "nothing: " + data.stop
      : next.action === "add"
        ? `${next.group}, for ${number(next.cost)}: ${number(100 * next.gain, 4)} % more explained`
        : `give back ${next.group}, which frees ${number(next.cost)}: `
          + `${number(-100 * next.gain, 4)} % less explained`;
    const body = byId("model");
    body.replaceChildren(...(step.rows || []).map((row) => {
      const line = document.createElement("tr");
      const [term, response, ...numbers] = row;
      const of = data.responses.length ? [data.responses[response]] : [];
      [...data.terms[term], ...of, ...numbers].forEach((shown) => {
        const cell = line.insertCell();
        if (typeof shown === "number") { cell.className = "number"; }
        cell.textContent = typeof shown === "number" ? number(shown) : shown === null ? "" : shown;
      });
      return line;
    }));
    byId("left-out").hidden = step.rows !== null;
    const x = data.left + Math.min(place(limit), 1) * data.width;
    byId("marker").setAttribute("x1", x);
    byId("marker").setAttribute("x2", x);
    slider.setAttribute("aria-valuetext", `budget ${number(limit)}: ${step.groups.length} groups, `
      + `spent ${number(step.spent)}, r2 ${number(step.r2, 4)}`);
  }

  slider.addEventListener("input", () => {
    const limit = costAt(slider.value / slider.max);
    budget.value = number(limit);
    show(slider.value === slider.max ? most : Number(budget.value));
  });
  budget.addEventListener("input", () => {
    const limit = Number(budget.value);
    if (budget.value === "" || !(limit >= 0)) { return; }
    slider.value = Math.min(place(limit), 1) * slider.max;
    show(limit);
  });

  // Tables whose heads are buttons are sorted by them; what is missing comes last.
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th button").forEach((button, column) => {
      button.addEventListener("click", () => {
        const head = button.parentElement;
        const rising = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th").forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const body = table.tBodies[0];
        const key = (line) => line.cells[column].dataset.value ?? line.cells[column].textContent;
        const lines = [...body.rows].sort((a, b) => {
          const [one, other] = [key(a), key(b)];
          if (one === "" || other === "") { return (one === "") - (other === ""); }
          const order = isNaN(one) || isNaN(other) ? one.localeCompare(other) : one - other;
          return rising ? order : -order;
        });
        body.append(...lines);
      });
    });
  }
  slider.dispatchEvent(new Event("input"));
})();
