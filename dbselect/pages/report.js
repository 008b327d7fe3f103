// The report: what a budget buys, and what if costs, groups, rule or ridge were others.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const slider = byId("slider"), budget = byId("budget"), form = byId("what-if");
  const costOf = new Map(data.groups.map((group) => [group.name, group.cost]));
  const money = (cost) => number(cost) + (data.unit ? ` ${data.unit}` : "");
  const put = (id, text, value) => {
    byId(id).textContent = text;
    if (value !== undefined) { byId(id).dataset.value = value ?? ""; }
  };
  const element = (tag, own = {}, ...children) => {
    const one = Object.assign(document.createElement(tag), own);
    one.append(...children);
    return one;
  };
  const setUps = Object.entries(data.shared);
  // What is shown: that of the report, or the answer to an edit.
  let shown = { steps: data.steps, lines: data.lines, stop: data.stop, isEdited: false };
  let axis = null, moveTo = null, search = null;

  // As `at` chooses: the longest prefix within the budget; where all was given back in the end,
  // the first within it after all was held.
  function stepWithin(limit) {
    const spent = shown.steps.map((step) => step.spent);
    const room = limit * (1 + data.slack);
    if (spent[spent.length - 1] > 0) {
      return spent.reduce((last, cost, step) => cost <= room ? step : last, 0);
    }
    const full = spent.indexOf(Math.max(...spent));
    return spent.findIndex((cost, step) => step >= full && cost <= room);
  }

  // The set-ups that each step pays or gives back.
  function setUpsPaid(steps) {
    const shared = shown.shared ?? setUps;
    return steps.map((step, at) => at === 0 ? [] : shared.filter(([, [, groups]]) =>
      groups.some((name) => step.groups.includes(name))
        !== groups.some((name) => steps[at - 1].groups.includes(name))).map(([name]) => name));
  }

  function draw() {
    const steps = shown.steps, spent = steps.map((step) => step.spent);
    const r2 = steps.map((step) => step.r2);
    axis = costAxis(spent, r2, shown.all);
    byId("most").textContent = money(axis.most);
    const lines = [{ name: "fitted rows", spent, value: r2 }, ...shown.lines];
    lines.forEach((line, at) => { line.kind = `c${at % 6}`; });
    const points = shown.isEdited ? [] : data.best.map((set) => (
      { spent: set.spent, value: set.r2, kind: "better", legend: "better set of groups",
        name: `${set.groups.join(", ")}: ${number(set.r2)} for ${money(set.spent)}` }));
    if (!shown.isEdited && data.chosen.why) {
      const at = steps[data.chosen.step];
      points.push({ spent: at.spent, value: at.r2, kind: "chosen", name: data.chosen.why,
        legend: data.chosen.why });
    }
    const paid = setUpsPaid(steps);
    const names = steps.map((step, at) => step.group === null ? null
      : (step.action === "remove" ? "\u2212 " : "") + [step.group, ...paid[at]].join(" + "));
    moveTo = drawChart(byId("chart"), { lines, names, points, axis, titles: data.titles,
      words: data.words });
  }

  function show(limit) {
    const at = stepWithin(limit), step = shown.steps[at], next = shown.steps[at + 1];
    put("step", `${at} of ${shown.steps.length - 1}`, at);
    put("spent", money(step.spent), step.spent);
    put("groups", step.groups.join(", ") || "none: the model without columns");
    put("r2", number(step.r2), step.r2);
    const held = step.held === null || step.held === undefined ? "not known" : number(step.held);
    put("held", held + (step.error ? ` \u00b1 ${number(step.error, 2)}` : ""), step.held);
    const also = next ? setUpsPaid([step, next])[1].map((name) => ` with ${name}`).join("") : "";
    put("next", !next ? `nothing: ${shown.stop}`
      : next.action === "add"
        ? `${next.group}${also}, for ${money(next.cost)}: ${number(100 * next.gain)} % more explained`
        : `give back ${next.group}${also}, which frees ${money(next.cost)}: `
          + `${number(-100 * next.gain)} % less explained`, next ? next.gain : null);
    const better = shown.isEdited ? undefined : data.best
      .filter((set) => set.spent <= limit * (1 + data.slack) && set.r2 > step.r2 + 0.0005)
      .sort((a, b) => b.r2 - a.r2)[0];
    byId("better-row").hidden = !better;
    put("better", better ? `${better.groups.join(", ")}: ${number(better.r2)} for `
      + `${money(better.spent)}` : "", better ? better.r2 : null);
    const number_ = (value) => typeof value === "number";
    byId("model").replaceChildren(...(step.rows || []).map(([term, response, ...numbers]) => {
      const [name, group] = data.terms[term];
      const of = data.responses.length ? [data.responses[response]] : [];
      const [coefficient, error, p] = numbers;
      const texts = [name, group ?? "", group ? number(cost(group)) : "", ...of,
        number(coefficient), number(error), number_(p) && p < 0.001 ? "< 0.001" : number(p)];
      return element("tr", {}, ...texts.map((text, column) => {
        const value = [null, null, group ? cost(group) : null, ...of.map(() => null),
          ...numbers][column];
        const cell = element("td", { textContent: text });
        if (number_(value)) { cell.className = "number"; cell.dataset.value = value; }
        return cell;
      }));
    }));
    byId("left-out").hidden = step.rows !== null;
    byId("certainty").textContent = shown.isEdited
      ? "Standard errors are those of the report as written; an edit has none." : data.certainty;
    moveTo(limit);
    slider.setAttribute("aria-valuetext", `budget ${money(limit)}: ${step.groups.length} groups, `
      + `spent ${money(step.spent)}, r2 ${number(step.r2)}`);
    writeCode(limit, at, step);
  }

  // The code of what is shown.
  const python = (value) => value instanceof Map
    ? `{${[...value].map(([name, one]) => `${python(name)}: ${python(one)}`).join(", ")}}`
    : value?.constructor === Object ? python(new Map(Object.entries(value)))
    : Array.isArray(value) ? `[${value.map(python).join(", ")}]` : JSON.stringify(value);
  function call(name, places, named) {
    const parts = [...places, ...[...named].map(([key, text]) => `${key}=${text}`)];
    const line = `${name}(${parts.join(", ")})`;
    return line.length <= 92 && !line.includes("\n") ? line
      : `${name}(\n${parts.map((part) => `    ${part.replaceAll("\n", "\n    ")},\n`).join("")})`;
  }
  function writeCode(limit, at, step) {
    const { code } = data, last = at === stepWithin(Infinity);
    const [fields, options] = [new Map(code.fields), new Map(code.options)];
    if (shown.isEdited) {
      const own = edits(), kept = code.groups.filter(([name]) => !shown.excluded.includes(name));
      if (shown.excluded.length) { fields.set("groups", python(new Map(kept))); }
      ["shared", "needs", "one_of", "limits"].forEach((name) => fields.delete(name));
      Object.entries(shown.told).forEach(([name, value]) => fields.set(name, python(value)));
      fields.set("costs", python(new Map(kept.map(([name]) => [name, own.costs.get(name)]))));
      own.always.length ? fields.set("always", python(own.always)) : fields.delete("always");
      own.ridge ? fields.set("ridge", python(own.ridge)) : fields.delete("ridge");
      if (own.rule !== data.ask.rule) { options.set("rule", python(own.rule)); }
      if (own.budget !== undefined) { options.set("budget", python(own.budget)); }
    }
    byId("python").textContent = [...code.before,
      call("problem = ds.Problem", [code.of, ...(code.target === null ? [] : [python(code.target)])], fields),
      call(`seq = problem.${code.method}`, [], options), ...(shown.isEdited ? [] : code.after),
      `model = seq.at(${last ? "" : python(limit)})`].join("\n");
    const duckdb = byId("duckdb");
    if (duckdb) { duckdb.parentElement.hidden = shown.isEdited; }
    const sql = byId("sql");
    if (!sql) { return; }
    sql.parentElement.hidden = !code.columns || !step.rows;
    if (!code.columns || !step.rows) { return; }
    const places = new Map(code.columns);
    const [[, , first], ...rest] = step.rows;
    const sum = rest.map(([term, , value]) => `${value} * ${places.get(data.terms[term][0])}`);
    sql.textContent = `SELECT *, ${[first, ...sum].join(" + ")} AS prediction\nFROM your_table`;
  }

  function showSlider() {
    const limit = axis.costAt(slider.value / slider.max);
    budget.value = Number(limit.toPrecision(6));
    show(slider.value === slider.max ? axis.most : Number(budget.value));
  }
  function showBudget() {
    const limit = Number(budget.value);
    if (budget.value === "" || !(limit >= 0)) { return; }
    slider.value = Math.min(axis.place(limit), 1) * slider.max;
    show(limit);
  }
  // Where the search itself keeps within the budget, another budget is another search.
  const moved = (how) => () => {
    how();
    if (search && byId("within").checked && budget.value !== "") { edited(how); }
  };
  slider.addEventListener("input", moved(showSlider));
  budget.addEventListener("input", moved(showBudget));

  // What if?
  const cost = (name) => shown.costs ? shown.costs.get(name) : costOf.get(name);
  function edits() {
    const value = (input) => input.value === "" ? NaN : Number(input.value);
    const all = [...byId("uses").rows];
    const [lines, others] = [true, false].map((is) => all.filter((line) => "group" in line.dataset === is));
    const use = new Map(lines.map((line) => [line.dataset.group, line.querySelector("select").value]));
    const asked = data.ask.groups.map(([name]) => name);
    const before = data.ask.options.always ?? [];
    return {
      costs: new Map(lines.map((line) => [line.dataset.group, value(line.querySelector("input"))])),
      shared: setUps.map(([name, [, groups]], at) =>
        [name, [value(others[at].querySelector("input")), groups]]),
      always: [...before, ...asked.filter((name) => !before.includes(name))]
        .filter((name) => use.get(name) === "always"),
      exclude: asked.filter((name) => use.get(name) === "exclude"),
      rule: byId("rule").value || null,
      ridge: value(byId("ridge")),
      budget: byId("within").checked ? Number(budget.value) : undefined,
    };
  }
  // The record calls columns by their numbers; the first term is the intercept.
  function stepsOf(found) {
    const columns = new Map(data.ask.groups), held = [];
    return found.steps.map((step) => {
      if (step.action === "add") { held.push(step.group); }
      if (step.action === "remove") { held.splice(held.indexOf(step.group), 1); }
      const own = new Set(held.flatMap((name) => columns.get(name)));
      const rows = [...own].map((at) => [Number(at) + 1, null, step.coefficients[at], null, null]);
      return { ...step, groups: [...held], held: null, error: null,
        rows: [[0, null, step.intercept, null, null], ...rows] };
    });
  }
  // As `_budgets` of dbselect/results/report/write.py; a group enters the bound at its cost.
  function budgetsOf(costs, most) {
    const least = Math.min(...costs);
    const parts = Array.from({ length: 49 }, (_, at) => at / 48);
    const all = [...costs, ...costs.map((one) => one * (1 - 1e-9)),
      ...parts.map((part) => part * most), ...parts.map((part) => least * (most / least) ** part)];
    return [...new Set(all)].filter((one) => one >= 0).sort((a, b) => a - b);
  }
  const unedited = () => JSON.stringify({ ...edits(), costs: [...edits().costs] });
  let initial = null;
  function edited(how) {
    const own = edits();
    const limit = Number(budget.value);
    if (unedited() === initial) {
      shown = { steps: data.steps, lines: data.lines, stop: data.stop, isEdited: false };
    } else {
      const groups = data.ask.groups;
      const options = { ...data.ask.options, groups, always: own.always, exclude: own.exclude,
        costs: groups.map(([name]) => [name, own.costs.get(name)]), ridge: own.ridge,
        shared: Object.fromEntries(own.shared) };
      if (own.rule !== null) { options.rule = own.rule; }
      if (own.budget !== undefined) { options.budget = own.budget; }
      // A set-up is shared out evenly, as the bound has it.
      const kept = groups.filter(([name]) => !own.exclude.includes(name))
        .map(([name]) => own.shared.reduce((sum, [, [one, who]]) =>
          sum + (who.includes(name) ? one / who.length : 0), own.costs.get(name)));
      // The curve of the report stays beside that of the edit.
      const all = Math.max(...data.steps.map((step) => step.spent),
        kept.reduce((sum, one) => sum + one, 0));
      try {
        const found = search(data.ask.record, data.ask.target, { method: data.ask.method,
          ...options, budgets: budgetsOf(kept, all) });
        const steps = stepsOf(found);
        const bound = { name: "bound: no groups explain more", isJoined: true,
          spent: found.budgets, value: found.bounds };
        const before = { name: "as reported", spent: data.steps.map((step) => step.spent),
          value: data.steps.map((step) => step.r2) };
        shown = { steps, lines: [bound, before], stop: data.stops[found.stop], isEdited: true,
          costs: own.costs, shared: own.shared, excluded: found.excluded, told: found.conditions,
          all };
      } catch (error) {
        byId("refusal").textContent = error.message;
        return;
      }
    }
    byId("refusal").textContent = "";
    byId("state").textContent = shown.isEdited
      ? "Edited: the curve, the order, the model and the code follow your changes."
      : "As in the report.";
    draw();
    // Neither the slider nor the box moves under the hand that moves it.
    if (how === showSlider || how === showBudget) { show(limit); } else { showOpen(limit); }
  }
  function showOpen(limit) {
    budget.value = Number(limit.toPrecision(6));
    slider.value = Math.min(axis.place(limit), 1) * slider.max;
    show(limit);
  }
  function priceBox(name, cost) {
    const input = element("input", { type: "number", min: "0", step: "any", value: cost });
    input.setAttribute("aria-label", `cost of ${name}`);
    return input;
  }
  function offer() {
    const uses = [["free", "may be taken"], ["always", "required"], ["exclude", "excluded"]];
    const always = data.ask.options.always ?? [];
    byId("uses").append(...data.groups.map((group) => {
      const select = element("select", {}, ...uses.map(([value, text]) =>
        element("option", { value, textContent: text })));
      select.setAttribute("aria-label", `use of ${group.name}`);
      select.value = always.includes(group.name) ? "always" : "free";
      const line = element("tr", {}, element("td", { textContent: group.name }),
        element("td", {}, priceBox(group.name, group.cost)), element("td", {}, select));
      line.dataset.group = group.name;
      return line;
    }), ...setUps.map(([name, [cost, groups]]) => element("tr", {},
      element("td", { textContent: name }), element("td", {}, priceBox(name, cost)),
      element("td", { textContent: `once, with the first of ${groups.join(", ")}` }))));
    const rule = byId("rule");
    rule.append(...data.ask.rules.map(([value, text]) => element("option", { value, textContent: text })));
    rule.value = data.ask.rule ?? "";
    rule.parentElement.hidden = data.ask.rules.length === 0;
    byId("within").parentElement.hidden = !data.ask.budget;
    byId("ridge").value = data.ask.options.ridge ?? 0;
    const before = [...form.querySelectorAll("input, select")].map((one) => [one, one.value]);
    byId("reset").addEventListener("click", () => {
      before.forEach(([one, value]) => { one.value = value; });
      byId("within").checked = false;
      edited();
    });
    form.addEventListener("input", edited);
    initial = unedited();
    form.hidden = false;
    byId("refused").hidden = true;
  }
  async function load() {
    const packed = Uint8Array.from(atob(byId("module").textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = await new Response(stream).arrayBuffer();
    search = searchOf((await WebAssembly.instantiate(bytes, {})).instance);
    offer();
  }

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

  const plots = () => document.querySelectorAll(".plot").forEach((holder) =>
    drawPlot(holder, JSON.parse(holder.dataset.chart)));
  draw();
  plots();
  showOpen(data.chosen.budget);
  let width = byId("chart").clientWidth;
  const fit = () => {
    if (byId("chart").clientWidth === width) { return; }
    width = byId("chart").clientWidth;
    draw();
    plots();
    moveTo(Number(budget.value));
  };
  window.addEventListener("resize", fit);
  window.addEventListener("beforeprint", fit);
  if (data.ask) {
    load().catch((error) => {
      byId("refused").textContent = `This browser cannot run the search in the page: ${error.message}`;
    });
  }
})();
