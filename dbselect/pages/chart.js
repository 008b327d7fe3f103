// Charts as SVG in the colours of the style sheet: curves against cost, points, lines and bars.
"use strict";

const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").body.firstChild.namespaceURI;

function svgNode(tag, attributes, text) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) { one.setAttribute(name, value); }
  if (text !== undefined) { one.textContent = text; }
  return one;
}

// A number in three significant digits, whole where it is large.
function number(value, digits = 3) {
  if (value === null || value === undefined) { return ""; }
  if (Math.abs(value) >= 100) {
    return Math.abs(value) < 1e15 ? Math.round(value).toLocaleString("en-US")
      : value.toPrecision(digits);
  }
  return String(Number(value.toPrecision(digits)));
}

// As in dbselect/pages/charts.py: linear, or log(1 + cost / constant) where half of the height
// is reached within a tenth of the cost. It ends at what all groups cost.
function costAxis(spent, height, all = 0) {
  const most = Math.max(all, ...spent) || 1;
  const half = (Math.max(...height) + Math.min(...height)) / 2;
  const early = Math.min(most, ...spent.filter((_, step) => height[step] >= half));
  const constant = early > 0 && early <= 0.1 * most ? early : null;
  const place = (cost) => constant === null ? cost / most
    : Math.log1p(cost / constant) / Math.log1p(most / constant);
  const costAt = (share) => share >= 1 ? most : constant === null ? share * most
    : constant * Math.expm1(share * Math.log1p(most / constant));
  return { most, constant, place, costAt };
}

function roundNumbers(low, high, count) {
  const power = 10 ** Math.floor(Math.log10((high - low) / count));
  const step = [1, 2, 5, 10].map((digit) => digit * power)
    .find((one) => one >= 0.999 * (high - low) / count);
  const first = Math.ceil(low / step - 1e-9), ticks = [];
  for (let at = first; at * step <= high + 1e-9 * step; at += 1) {
    ticks.push(Number((at * step).toPrecision(12)));
  }
  return ticks;
}

function costTicks(axis, apart) {
  if (axis.constant === null) { return roundNumbers(0, axis.most, Math.max(2, 0.5 / apart)); }
  const kept = [0], end = Math.log10(axis.most);
  for (let power = Math.floor(end) - 9; power <= end; power += 1) {
    for (const digit of [1, 2, 5]) {
      const cost = Number(`${digit}e${power}`);
      if (cost <= axis.most && axis.place(cost) - axis.place(kept[kept.length - 1]) >= apart) {
        kept.push(cost);
      }
    }
  }
  return kept;
}

// Draw lines {name, spent, value, low, high, kind, isJoined} into a holder, the first above all
// others, in steps unless they are joined.
// names: of the steps of the first line. points: {spent, value, kind, name}. Returns what moves
// the budget.
function drawChart(holder, { lines, names, points, axis, titles, words }) {
  const node = svgNode;
  const width = Math.max(holder.clientWidth, 280), height = Math.max(260, Math.min(360, width / 2));
  const [left, right, top, bottom] = [48, 14, 26, 46];
  const finite = lines.flatMap((line) => [line.value, line.low ?? [], line.high ?? []]).flat()
    .concat(points.map((point) => point.value)).filter((one) => one !== null);
  const low = Math.max(-0.25, Math.min(0, ...finite)), most = Math.max(1e-12, ...finite);
  const high = most + 0.03 * (most - low);
  const round = (value) => Math.round(10 * value) / 10;
  const across = (cost) => round(left + Math.min(axis.place(cost), 1) * (width - left - right));
  const clip = (value) => Math.min(Math.max(value, low), high);
  const up = (value) => round(height - bottom - (clip(value) - low) / (high - low)
    * (height - top - bottom));
  const svg = node("svg", { class: "chart", role: "img", "aria-label": words,
    viewBox: `0 0 ${width} ${height}` });
  const text = (x, y, what, anchor, own = {}) =>
    svg.append(node("text", { x, y, "text-anchor": anchor, ...own }, what));
  for (const tick of roundNumbers(low, high, 5)) {
    svg.append(node("line", { class: "grid", x1: left, x2: width - right, y1: up(tick), y2: up(tick) }));
    text(left - 6, up(tick) + 4, number(tick), "end");
  }
  for (const tick of costTicks(axis, 55 / (width - left - right))) {
    const x = across(tick);
    svg.append(node("line", { class: "grid", x1: x, x2: x, y1: top, y2: height - bottom }));
    text(x, height - bottom + 16, number(tick), "middle");
  }
  text(4, 14, titles.value, "start");
  const scaled = axis.constant === null ? "" : ", logarithmic scale";
  text((left + width - right) / 2, height - 8, titles.cost + scaled, "middle");

  const path = (line, values) => {
    let told = "", before = null;
    values.forEach((value, step) => {
      if (value === null) { return; }
      const x = across(line.spent[step]);
      told += before === null ? `M${x} ${up(value)}`
        : line.isJoined ? `L${x} ${up(value)}` : `L${x} ${before}L${x} ${up(value)}`;
      before = up(value);
    });
    return told;
  };
  const back = (told) => told.slice(1).split("L").reverse().join("L");
  [...lines].reverse().forEach((line) => {
    if (line.low) {
      const band = `${path(line, line.high)}L${back(path(line, line.low))}Z`;
      svg.append(node("path", { class: `band ${line.kind}`, d: band }));
    }
    svg.append(node("path", { class: `line ${line.kind}`, d: path(line, line.value) }));
  });

  // Names where there is room beside marks, those of the largest gains first; below the line is
  // nothing of it.
  const first = lines[0], taken = points.map((point) => {
    const x = across(point.spent);
    return { from: x - 8, to: x + 8, y: up(point.value) };
  });
  const size = (step) => Math.abs(first.value[step] - first.value[step - 1]);
  const order = names.map((_, step) => step).filter((step) => names[step] !== null)
    .sort((a, b) => size(b) - size(a));
  for (const step of order) {
    const short = names[step].length > 22 ? `${names[step].slice(0, 20)}\u2026` : names[step];
    const wide = 6.6 * short.length + 6, x = across(first.spent[step]), y = up(first.value[step]);
    const ends = x + wide > width - right;
    const box = { from: ends ? x - wide : x, to: ends ? x : x + wide, y: y + 15 };
    const hit = taken.some((one) => one.from < box.to && box.from < one.to
      && Math.abs(one.y - box.y) < 14);
    if (hit || box.from < left || box.y > height - bottom - 2) { continue; }
    taken.push(box);
    text(ends ? x - 4 : x + 4, box.y, short, ends ? "end" : "start", { class: "step" });
  }
  first.spent.forEach((cost, step) => {
    const dot = node("circle", { class: "dot", cx: across(cost), cy: up(first.value[step]), r: 3 });
    dot.append(node("title", {}, `${names[step] ?? "no group"}: ${number(first.value[step])}`));
    svg.append(dot);
  });
  for (const point of points) {
    const [x, y, r] = [across(point.spent), up(point.value), 6];
    const shape = point.kind === "better" ? `M${x - r} ${y}L${x} ${y - r}L${x + r} ${y}L${x} ${y + r}Z`
      : `M${x - r} ${y}A${r} ${r} 0 1 0 ${x + r} ${y}A${r} ${r} 0 1 0 ${x - r} ${y}Z`;
    const mark = node("path", { class: `mark ${point.kind}`, d: shape });
    mark.append(node("title", {}, point.name));
    svg.append(mark);
  }
  const marker = node("line", { id: "marker", y1: top, y2: height - bottom });
  svg.append(marker);
  const sample = (one) => {
    const item = document.createElement("li");
    const drawn = node("svg", { width: 34, height: 14, "aria-hidden": "true" });
    drawn.append(one.spent.length === undefined
      ? node("path", { class: `mark ${one.kind}`, d: one.kind === "better"
        ? "M11 7L17 1L23 7L17 13Z" : "M11 7A6 6 0 1 0 23 7A6 6 0 1 0 11 7Z" })
      : node("path", { class: `line ${one.kind}`, d: "M1 7H33" }));
    item.append(drawn, ` ${one.legend ?? one.name}`);
    return item;
  };
  const kinds = new Map(points.map((point) => [point.kind, point]));
  const legend = document.createElement("ul");
  legend.className = "legend";
  legend.append(...[...lines, ...kinds.values()].map(sample));
  holder.replaceChildren(svg, legend);
  return (budget) => {
    const x = round(left + Math.min(axis.place(budget), 1) * (width - left - right));
    marker.setAttribute("x1", x);
    marker.setAttribute("x2", x);
  };
}

// Draw points, a line or bars into a holder; points and lines beside the line of equals.
function drawPlot(holder, { kind, x, y, titles, words }) {
  const width = Math.max(holder.clientWidth, 280), height = Math.max(240, Math.min(320, width / 2));
  const [left, right, top, bottom] = [52, 14, 26, 46];
  const ends = (values) => [Math.min(...values), Math.max(...values)];
  let [xs, ys] = [ends(x), kind === "bars" ? [0, 1.05 * Math.max(...y)] : ends(y)];
  if (kind !== "bars") {
    const [low, high] = ends([...xs, ...ys]), room = 0.04 * (high - low || 1);
    xs = ys = [low - room, high + room];
  }
  const across = (value) => left + (value - xs[0]) / (xs[1] - xs[0]) * (width - left - right);
  const up = (value) => height - bottom - (value - ys[0]) / (ys[1] - ys[0]) * (height - top - bottom);
  const svg = svgNode("svg", { class: "chart", role: "img", "aria-label": words,
    viewBox: `0 0 ${width} ${height}` });
  const text = (at, below, what, anchor) =>
    svg.append(svgNode("text", { x: at, y: below, "text-anchor": anchor }, what));
  for (const tick of roundNumbers(...ys, 5)) {
    svg.append(svgNode("line", { class: "grid", x1: left, x2: width - right, y1: up(tick), y2: up(tick) }));
    text(left - 6, up(tick) + 4, number(tick), "end");
  }
  roundNumbers(...xs, width / 90).forEach((tick) => text(across(tick), height - bottom + 16, number(tick), "middle"));
  text(4, 14, titles[1], "start");
  text((left + width - right) / 2, height - 8, titles[0], "middle");
  if (kind === "bars") {
    y.forEach((share, at) => svg.append(svgNode("rect", { class: "bar", x: across(x[at]), y: up(share),
      width: Math.max(across(x[at + 1]) - across(x[at]) - 1, 0.5), height: up(0) - up(share) })));
  } else {
    const equal = `M${across(xs[0])} ${up(ys[0])}L${across(xs[1])} ${up(ys[1])}`;
    svg.append(svgNode("path", { class: "line c1", d: equal }));
  }
  if (kind === "points") {
    x.forEach((one, at) => svg.append(svgNode("circle", { class: "point", cx: across(one), cy: up(y[at]), r: 4 })));
  }
  if (kind === "line") {
    const path = x.map((one, at) => `${across(one)} ${up(y[at])}`).join("L");
    svg.append(svgNode("path", { class: "line c0", d: `M${path}` }));
  }
  holder.replaceChildren(svg);
}
