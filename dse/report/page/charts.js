// The figures, one function each: what it draws, and the sentence that heads it.
"use strict";

const timed = () => state.order; // configurations that have a time by the chosen model, fastest first
const best = () => state.time[state.order[0]];
const byModel = () => (["measured", "predicted", "refitted"].includes(state.model) ? state.model : `by ${state.model}`);
const timeAxis = (more = {}) => ({
  values: state.time, unit: "s", log: true, short: "time", title: state.model === "measured" ? "measured time" : "predicted time", ...more,
});

function slower(share) {
  const limit = best() * (1 + share);
  return state.order.filter((i) => state.time[i] <= limit * (1 + 1e-9)).length;
}

figure("spread", {}, (made) => {
  const points = timed();
  if (!points.length) return "No times to draw: the files have parameters only.";
  const colour = ofModel("bottleneck"), low = ofModel("low_s"), high = ofModel("high_s");
  const worst = state.time[points[points.length - 1]];
  made.say(`The slowest takes ${number(worst / best(), 3)} times as long as the fastest`,
    `All configurations, fastest first, ${byModel()}${colour ? "; coloured by bottleneck" : ""}${low ? "; thin lines: interval" : ""}. Drag to choose.`);
  colours(made, colour, points);
  const ranks = Float64Array.from(state.rank, (x) => x || NaN);
  return scatter(made, {
    x: { values: ranks, title: "rank", log: points.length > 50, whole: true }, y: timeAxis(low ? { domain: whole([low.values, high.values, state.time]) } : {}),
    points, colour, brush: true, label: `Time of ${plural(points.length, "configuration")} in order, from ${quantity(best(), "s")} to ${quantity(worst, "s")}.`,
    over: low && points.length <= 2000 ? (svg, sx, sy) => points.forEach((i) => svg.prepend(element("path", { class: "rule", opacity: 0.35, d: `M${sx(ranks[i])} ${sy(low.values[i])}V${sy(high.values[i])}` }))) : null,
  });
});

const whole = (arrays) => {
  const ends = arrays.map((values) => extent(values));
  return [Math.min(...ends.map((e) => e[0])), Math.max(...ends.map((e) => e[1]))];
};

figure("occupancy", {}, (made) => {
  const occupancy = column("occupancy");
  made.say("Occupancy", "");
  if (!occupancy) return "No occupancy in these files.";
  const points = timed(), colour = ofModel("bottleneck");
  if (!points.length) return "No times to draw.";
  const near = points.slice(0, slower(0.05)).map((i) => occupancy.values[i]), [low, high] = extent(near);
  made.say(low === high ? `Within 5 % of the fastest: occupancy ${percent(low)}` : `Within 5 % of the fastest: occupancy ${percent(low)} to ${percent(high)}`,
    "Warps that are resident on an SM, of as many as it can hold, against time.");
  colours(made, colour, points);
  return scatter(made, {
    x: { values: Float64Array.from(occupancy.values, (v) => 100 * v), title: "occupancy (%)", short: "occupancy", domain: [0, 104] }, y: timeAxis(),
    points, colour, brush: true, label: `Time against occupancy of ${plural(points.length, "configuration")}.`,
  });
});

figure("roofline", {}, (made) => {
  const { roofline } = state.space;
  made.say("Roofline", "");
  if (!roofline.roofs) return `Not drawn: ${roofline.reason}.`;
  const work = column("thread_instructions").values, bytes = column("dram_bytes").values, { roofs } = roofline;
  const intensity = Float64Array.from(work, (x, i) => x / bytes[i]), rate = Float64Array.from(work, (x, i) => x / state.time[i]);
  const points = timed().filter((i) => Number.isFinite(intensity[i]) && Number.isFinite(rate[i]) && bytes[i] > 0);
  if (!points.length) return "Not drawn: no configuration with instructions and DRAM traffic has a time.";
  const ridge = roofs.instructions_per_s / roofs.dram_bytes_per_s;
  const over = points.filter((i) => intensity[i] < ridge).length;
  made.say(over === 0 ? "Right of the ridge: the DRAM roof binds none" : over === points.length ? "Every configuration lies under the DRAM roof" : `${number(Math.round(100 * over / points.length))} % of the configurations lie under the DRAM roof`,
    `Instruction roofline: thread instructions for each byte from DRAM, and how many a second ${byModel()}. ${roofline.note || ""}`);
  const colour = ofModel("bottleneck");
  colours(made, colour, points);
  const [x0, x1] = extent(intensity, (i) => state.rank[i]), [y0, y1] = extent(rate, (i) => state.rank[i]);
  return scatter(made, {
    x: { values: intensity, title: "arithmetic intensity (thread instructions / DRAM byte)", short: "intensity", log: true, domain: [Math.min(x0 / 1.3, ridge / 4), Math.max(x1, ridge) * 1.5] },
    y: { values: rate, unit: "instructions/s", title: "rate", log: true, domain: [Math.min(y0, roofs.fp32_per_s) / 1.3, Math.max(y1, roofs.instructions_per_s) * 1.5] },
    points, colour, brush: true, label: `Roofline of ${state.space.gpu} with ${plural(points.length, "configuration")}.`,
    over(svg, sx, sy, inside) {
      const left = sx.domain[0], right = sx.domain[1], top = roofs.instructions_per_s;
      const clip = (x) => Math.max(sy(Math.max(sy.domain[0], x)), inside.top);
      const start = Math.max(left, sy.domain[0] / roofs.dram_bytes_per_s);
      svg.append(element("path", { class: "strong", d: `M${sx(start)} ${clip(start * roofs.dram_bytes_per_s)}L${sx(ridge)} ${sy(top)}H${sx(right)}` }));
      const pipe = roofs.fp32_per_s;
      if (pipe < top * 0.99) {
        svg.append(element("path", { class: "dash", d: `M${sx(pipe / roofs.dram_bytes_per_s)} ${sy(pipe)}H${sx(right)}` }));
        svg.append(element("text", { class: "note", x: inside.right - 6, y: sy(pipe) - 5, "text-anchor": "end" }, "fp32 only"));
      }
      svg.append(element("text", { class: "note", x: inside.right - 6, y: sy(top) - 6, "text-anchor": "end" }, `issue ${number(top / 1e12, 3)} T/s`));
      const middle = Math.sqrt(start * ridge), slope = (Math.atan2(sy(top) - sy(start * roofs.dram_bytes_per_s), sx(ridge) - sx(start)) * 180) / Math.PI;
      const mx = sx(middle), my = sy(middle * roofs.dram_bytes_per_s);
      if (sx(ridge) - sx(start) > 90) svg.append(element("text", { class: "note", x: mx, y: my - 7, "text-anchor": "middle", transform: `rotate(${slope} ${mx} ${my})` }, `DRAM ${quantity(roofs.dram_bytes_per_s, "B/s", 3)}`));
    },
  });
});

// ---- Pareto front -------------------------------------------------------------------------------------------------

const COSTS = [["shared_bytes", "shared memory of a block", "B"], ["registers", "registers of a thread"], ["threads", "threads of a block"], ["dram_bytes", "DRAM traffic", "B"], ["blocks", "blocks"]];

figure("pareto", {}, (made) => {
  const points = timed(), open = COSTS.filter(([name]) => column(name) && extent(column(name).values, (i) => state.rank[i]).reduce((a, b) => a < b, false) !== false && new Set(points.slice(0, 5000).map((i) => column(name).values[i])).size > 1);
  made.say("Pareto front", "");
  if (!points.length || !open.length) return "Nothing that a configuration costs differs beside its time.";
  const chosen = choice(made, "cost", "time against", open.map(([name, title]) => [name, title]), open[0][0]).value;
  const [, title, unit] = open.find(([name]) => name === chosen), values = column(chosen).values;
  const front = [];
  for (const i of points) if (state.mask[i] && (!front.length || values[i] < values[front[front.length - 1]])) front.push(i); // by time: each must cost less
  made.say(`${plural(front.length, "configuration")} that no other beats in both`, `Time ${byModel()} against ${title}; nearer the lower left is better. The line joins those that are not beaten, of the ones chosen.`);
  colours(made, ofModel("bottleneck"), points);
  return scatter(made, {
    x: { values, unit, title, short: chosen }, y: timeAxis(), points, colour: ofModel("bottleneck"), brush: true,
    label: `Time against ${title}; ${plural(front.length, "configuration")} on the Pareto front.`,
    over(svg, sx, sy, inside) {
      if (!front.length) return;
      const [last, ...rest] = [...front].reverse();
      svg.append(element("path", { class: "strong", d: `M${sx(values[last])} ${inside.top}V${sy(state.time[last])}` + rest.map((i) => `H${sx(values[i])}V${sy(state.time[i])}`).join("") + `H${inside.right}` }));
      for (const i of front) svg.append(element("circle", { cx: sx(values[i]), cy: sy(state.time[i]), r: 4, fill: css("--paper"), stroke: css("--ink"), "stroke-width": 1.5, style: "pointer-events:none" }));
    },
  });
});

// ---- heat map -----------------------------------------------------------------------------------------------------

const STATISTICS = { fastest: (v) => v[0], median: (v) => quantile(v, 0.5), slowest: (v) => v[v.length - 1] };

const varying = () => state.space.parameters.filter((name) => column(name).levels || column(name).names);
const level = (made, code) => (made.names ? made.names[code] ?? "–" : number(made.levels[code]));

const heat = figure("heat", {}, (made) => {
  const names = varying();
  if (names.length < 2) return "A heat map takes two parameters that vary.";
  if (!timed().length) return "No times to draw.";
  const ordered = byImportance(names), options = names.map((name) => [name, name]);
  const across = choice(made, "x", "across", options, ordered[0], (value) => { if (value === down().value) down().value = names.find((name) => name !== value); made.draw(); });
  const down = () => made.controls.querySelector('select[name="y"]');
  const upright = choice(made, "y", "down", options, ordered[1], (value) => { if (value === across.value) across.value = names.find((name) => name !== value); made.draw(); });
  const statistic = choice(made, "of", "shows the", Object.keys(STATISTICS).map((name) => [name, name]), "fastest").value;
  const [x, y] = [column(across.value), column(upright.value)];
  const mask = maskWithout("heat"), cells = new Map();
  const xs = (x.names || x.levels).length, ys = (y.names || y.levels).length;
  for (const i of timed()) if (mask[i]) {
    const key = y.codes[i] * xs + x.codes[i];
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(state.time[i]); // in order, as `timed` is
  }
  const values = new Map([...cells].map(([key, list]) => [key, STATISTICS[statistic](list)]));
  const [low, high] = extent([...values.values()]);
  const at = [...values].find(([, v]) => v === low)?.[0];
  const alike = [...values.values()].filter((v) => v <= low * 1.001).length;
  const where = at === undefined ? "" : `${across.value} ${level(x, at % xs)}, ${upright.value} ${level(y, Math.floor(at / xs))}`;
  made.say(`${statistic[0].toUpperCase() + statistic.slice(1)} time: least ${alike > 1 ? `in ${alike} of ${plural(values.size, "cell")}, ${quantity(low, "s")}` : `at ${where}`}`, `Of the configurations of each cell, the ${statistic} time ${byModel()}; darker is faster, empty cells have none. Click a cell to choose it.`);
  if (document.documentElement.dataset.theme === "dark") made.caption.textContent = made.caption.textContent.replace("darker", "lighter");

  const width = Math.max(260, made.body.clientWidth || 560), inside = { left: 78, right: width - 14, top: 6, bottom: made.height - 44 };
  const w = (inside.right - inside.left) / xs, h = (inside.bottom - inside.top) / ys;
  const [worth, unit] = prefix(Math.sqrt(low * high), "s");
  const svg = element("svg", { viewBox: `0 0 ${width} ${made.height}`, role: "img", "aria-label": `${statistic} time over ${across.value} and ${upright.value}, from ${quantity(low, "s")} to ${quantity(high, "s")}.` });
  const gap = Math.min(2, w * 0.08, h * 0.08);
  for (const [key, value] of values) {
    const cx = key % xs, cy = Math.floor(key / xs);
    const [fill, ink] = shade(high > low ? 1 - Math.log(value / low) / Math.log(high / low) : 1);
    const label = `${across.value} ${level(x, cx)}, ${upright.value} ${level(y, cy)}`;
    const pick = () => { const on = state.filters.get("heat")?.label === label; filter("heat", label, on ? null : (i) => x.codes[i] === cx && y.codes[i] === cy); };
    const square = element("rect", { x: inside.left + cx * w + gap / 2, y: inside.bottom - (cy + 1) * h + gap / 2, width: w - gap, height: h - gap, rx: Math.min(3, w / 8), fill, style: "cursor:pointer", onclick: pick });
    if (state.filters.get("heat")?.label === label) square.setAttribute("stroke", css("--ink")), square.setAttribute("stroke-width", 2);
    square.addEventListener("pointermove", (event) => tip(event, 0, [element("b", {}, quantity(value, "s")), ` ${statistic} of ${number(cells.get(key).length)}`, element("br"), element("span", {}, label)]));
    square.addEventListener("pointerleave", () => tip(null, -1));
    svg.append(square);
    const text = number(Number((value / worth).toPrecision(3)), 3);
    if (w > 7 * text.length + 6 && h > 15)
      svg.append(element("text", { x: inside.left + (cx + 0.5) * w, y: inside.bottom - (cy + 0.5) * h + 4, "text-anchor": "middle", style: `fill:${ink};pointer-events:none` }, text));
  }
  const ticks = (count, room, put) => { const every = Math.ceil(count / room); for (let c = 0; c < count; c += every) put(c); };
  ticks(xs, (inside.right - inside.left) / 38, (c) => svg.append(element("text", { x: inside.left + (c + 0.5) * w, y: inside.bottom + 16, "text-anchor": "middle" }, level(x, c).slice(0, Math.max(6, w / 7)))));
  ticks(ys, (inside.bottom - inside.top) / 15, (c) => svg.append(element("text", { x: inside.left - 7, y: inside.bottom - (c + 0.5) * h + 4, "text-anchor": "end" }, level(y, c).slice(0, 9))));
  svg.append(element("text", { class: "axis", x: (inside.left + inside.right) / 2, y: inside.bottom + 36, "text-anchor": "middle" }, across.value));
  svg.append(element("text", { class: "axis", x: -(inside.top + inside.bottom) / 2, y: 13, transform: "rotate(-90)", "text-anchor": "middle" }, upright.value));
  made.body.replaceChildren(element("div", { class: "plot", style: `height:${made.height}px` }, svg));
  const ramp = Array.from({ length: 24 }, (_, k) => shade(1 - k / 23)[0]).join(",");
  made.legend.replaceChildren(element("li", {}, `${tickText(Number((low / worth).toPrecision(4)))} ${unit} `, element("i", { style: `width:9em;margin:0 .4em;background:linear-gradient(to right,${ramp})` }), ` ${tickText(Number((high / worth).toPrecision(4)))} ${unit} (log scale)`));
  return values.size;
});

function byImportance(names) {
  const shares = state.space.importance[state.model] || {};
  const size = (name) => shares[name]?.total ?? shares[name]?.first ?? 0;
  return [...names].sort((a, b) => size(b) - size(a));
}

figure("importance", {}, (made) => {
  const shares = state.space.importance[state.model] || {}, names = byImportance(Object.keys(shares));
  made.say("What the time depends on", "");
  if (!names.length) return "Times do not differ, no parameter varies, or there are fewer than ten configurations.";
  const first = names[0];
  made.say(`${first} matters most: ${number(100 * (shares[first].total ?? shares[first].first), 2)} % of how times differ`,
    `Share of the variance of log time ${byModel()}, over all configurations. Solid: by the parameter alone (first order, Sobol); pale: with what it does together with others (total). Constraints tie parameters together, so shares may overlap.`);
  const share = (x) => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)} %`;
  const bar = (kind, share) => element("i", { class: kind, style: `width:${Math.max(0, Math.min(100, 100 * share))}%` });
  made.body.replaceChildren(element("table", { class: "bars" }, element("tbody", {}, ...names.map((name) => {
    const { first, total } = shares[name];
    const look = () => { const box = heat.controls.querySelector('select[name="x"]'); if (box && [...box.options].some((o) => o.value === name)) { box.value = name; box.dispatchEvent(new Event("change")); } };
    return element("tr", {}, element("th", { scope: "row" }, element("button", { type: "button", title: "Show it in the heat map", onclick: look }, name)),
      element("td", {}, element("div", { class: "track", role: "img", "aria-label": `${name}: first order ${percent(first)}, total ${total === null ? "unknown" : percent(total)}` }, bar("total", total ?? 0), bar("first", first))),
      element("td", { class: "n" }, `${share(first)} / ${total === null ? "?" : share(total)}`));
  }))));
  made.legend.replaceChildren(element("li", {}, "first order / total"), ...(names.some((name) => shares[name].total === null) ? [element("li", {}, "?: too few configurations differ in that parameter alone")] : []));
  return names.length;
});

// ---- parallel coordinates -----------------------------------------------------------------------------------------

const LINES = 1500, AXES = 9; // that a picture holds

figure("parallel", {}, (made) => {
  const names = byImportance(varying()).slice(0, AXES), points = timed();
  if (names.length < 2 || !points.length) return null; // the heat map says why
  const axes = names.map(column), near = points.slice(0, slower(0.05)), worst = state.time[points[points.length - 1]];
  const shared = names.filter((_, k) => near.every((i) => axes[k].codes[i] === axes[k].codes[near[0]]));
  made.say(shared.length ? `All within 5 % of the fastest have ${shared.map((name) => `${name} ${level(column(name), column(name).codes[near[0]])}`).join(", ")}` : "Within 5 % of the fastest no parameter is the same in all",
    `A line is a configuration, from its parameters (those that matter most, first) to its time ${byModel()}; the fastest are dark. Click a value to choose it.`);
  const width = Math.max(260, made.body.clientWidth || 560), { height } = made, inside = { left: 30, right: width - 62, top: 26, bottom: height - 12 };
  const sx = (k) => inside.left + (k / names.length) * (inside.right - inside.left);
  const time = log(best(), Math.max(worst, best() * 1.001), inside.top, inside.bottom);
  const steps = axes.map((axis) => Math.max(1, (axis.names || axis.levels).length - 1)), band = steps.map((count) => Math.min(36, (0.7 * (inside.bottom - inside.top)) / count));
  const place = (k, code) => inside.bottom - 18 - (code / steps[k]) * (inside.bottom - inside.top - 36);
  const ratio = Math.max(2, window.devicePixelRatio || 1), canvas = element("canvas", { width: width * ratio, height: height * ratio, role: "img", "aria-label": `Parameters and time of ${plural(points.length, "configuration")}.` });
  const context = canvas.getContext("2d"), every = Math.ceil(points.length / LINES);
  const lines = points.filter((_, place) => place % every === 0).reverse(); // the fastest above the others
  context.scale(ratio, ratio);
  for (const chosen of [0, 1]) for (const i of lines) if (state.mask[i] === chosen) {
    const share = worst > best() ? 1 - Math.log(state.time[i] / best()) / Math.log(worst / best()) : 1;
    context.strokeStyle = chosen ? shade(share)[0] : css("--dim");
    context.globalAlpha = chosen ? 0.08 + 0.8 * share ** 6 : 0.1;
    context.beginPath();
    names.forEach((_, k) => context.lineTo(sx(k), place(k, axes[k].codes[i]) + band[k] * (0.5 - share))); // faster above
    context.lineTo(sx(names.length), time(state.time[i]));
    context.stroke();
  }
  const above = element("svg", { viewBox: `0 0 ${width} ${height}` });
  const write = (x, y, text, more) => above.append(element("text", { x, y, ...more }, text));
  names.forEach((name, k) => {
    above.append(element("line", { class: "rule", x1: sx(k), x2: sx(k), y1: inside.top, y2: inside.bottom }));
    write(sx(k), 12, name.slice(0, Math.max(4, (inside.right - inside.left) / names.length / 7)), { class: "axis", "text-anchor": "middle" });
    const values = axes[k].names || axes[k].levels, each = Math.ceil((values.length * 13) / (inside.bottom - inside.top));
    for (let code = 0; code < values.length; code += each) {
      const key = `parallel ${name}`, label = `${name} ${level(axes[k], code)}`;
      const pick = () => filter(key, label, state.filters.get(key)?.label === label ? null : (i) => axes[k].codes[i] === code);
      write(sx(k) + 4, place(k, code) + 4, level(axes[k], code).slice(0, 8), { style: "cursor:pointer;paint-order:stroke;stroke:var(--paper);stroke-width:3px", onclick: pick });
    }
  });
  above.append(element("line", { class: "rule", x1: inside.right, x2: inside.right, y1: inside.top, y2: inside.bottom }));
  write(inside.right, 12, "time", { class: "axis", "text-anchor": "middle" });
  for (const [seconds, y] of [[best(), inside.top], [worst, inside.bottom]]) write(inside.right + 5, y + 4, quantity(seconds, "s", 3));
  made.body.replaceChildren(element("div", { class: "plot", style: `height:${height}px` }, canvas, above));
  made.legend.replaceChildren(...(every > 1 ? [element("li", {}, `one configuration in ${every}`)] : []));
  return lines.length;
});

// ---- where models disagree ----------------------------------------------------------------------------------------

function ranks(points, values) {
  const order = [...points].sort((a, b) => values[a] - values[b]), rank = new Map();
  for (let i = 0; i < order.length; ) {
    let j = i;
    while (j < order.length && values[order[j]] === values[order[i]]) j++;
    for (let k = i; k < j; k++) rank.set(order[k], (i + j - 1) / 2);
    i = j;
  }
  return Float64Array.from(points, (i) => rank.get(i));
}

function pearson(a, b) {
  let ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; i++) { ma += a[i]; mb += b[i]; }
  ma /= a.length; mb /= a.length;
  for (let i = 0; i < a.length; i++) { ab += (a[i] - ma) * (b[i] - mb); aa += (a[i] - ma) ** 2; bb += (b[i] - mb) ** 2; }
  return aa && bb ? ab / Math.sqrt(aa * bb) : NaN;
}

const correlation = (points, a, b) => pearson(ranks(points, a), ranks(points, b));

let agreed = null; // of the space at hand, worked out once
function agreement() {
  const { space } = state;
  if (agreed?.space === space) return agreed;
  const times = space.models.map((name) => ofModel("time_s", name).values);
  let points = []; for (let i = 0; i < n(); i++) if (times.every((t) => Number.isFinite(t[i]))) points.push(i);
  const every = Math.ceil(points.length / 10000);
  points = points.filter((_, k) => k % every === 0);
  const ranked = points.length > 2 ? times.map((t) => ranks(points, t)) : [];
  agreed = { space, points, of: ranked.map((a) => ranked.map((b) => pearson(a, b))), every };
  return agreed;
}

const agree = figure("agreement", {}, (made) => {
  const { models } = state.space;
  if (models.length < 2 || (models.length === 2 && column("measured_s"))) return null; // drawn above
  const { of, every } = agreement();
  made.say("Where models disagree", "");
  if (!of.length) return "Too few configurations have a time by all of the models.";
  const pairs = models.flatMap((_, a) => models.slice(0, a).map((_, b) => [of[a][b], a, b])).filter(([r]) => Number.isFinite(r)).sort((p, q) => p[0] - q[0]);
  if (!made.pair || made.space !== state.space) { made.pair = pairs.length ? [pairs[0][2], pairs[0][1]] : [0, 1]; made.space = state.space; }
  const [a, b] = made.pair, here = ofModel("time_s").values, least = best();
  made.say(pairs.length ? `${models[pairs[0][2]]} and ${models[pairs[0][1]]} disagree most (${pairs[0][0].toFixed(2)})` : "Where models disagree",
    `Rank correlation (Spearman) of the times of each two${every > 1 ? `, of one configuration in ${every}` : ""}. On the right: how much slower, ${byModel()}, is what a model holds for the fastest. Click a cell to see the two beside each other.`);
  const rows = models.map((name, row) => {
    const t = ofModel("time_s", name).values; let top = -1;
    for (let i = 0; i < n(); i++) if (Number.isFinite(t[i]) && (top < 0 || t[i] < t[top] || (t[i] === t[top] && here[i] < here[top]))) top = i;
    const loss = here[top] / least - 1;
    return element("tr", {}, element("th", { scope: "row" }, `${name} ${row + 1}`), ...models.map((other, k) => {
      const r = of[row][k], [fill, ink] = shade(Number.isFinite(r) ? Math.max(0, r) ** 2 : 0);
      return element("td", {}, element("button", { type: "button", title: `${name} and ${other}: ${r.toFixed(2)}`, style: `background:${fill};color:${ink}`, "aria-pressed": String((row === a && k === b) || (row === b && k === a)), onclick: () => { made.pair = [row, k]; redraw(); } }, row === k ? "" : models.length <= 10 ? r.toFixed(2).replace("0.", ".") : ""));
    }), element("td", { class: "n" }, top < 0 || !Number.isFinite(loss) ? "–" : loss < 5e-4 ? "as fast" : `+${percent(loss)}`));
  });
  const head = element("tr", {}, element("th"), ...models.map((name, k) => element("th", { title: name }, String(k + 1))), element("th", {}, "its fastest"));
  made.body.replaceChildren(element("div", { class: "scroll" }, element("table", { class: "matrix" + (models.length > 10 ? " dense" : "") }, element("thead", {}, head), element("tbody", {}, ...rows))));
  const ramp = Array.from({ length: 24 }, (_, k) => shade((k / 23) ** 2)[0]).join(",");
  made.legend.replaceChildren(element("li", {}, "0 or less", element("i", { style: `width:9em;margin:0 .4em;background:linear-gradient(to right,${ramp})` }), "1: the same order"));
  return models.length ** 2;
});

figure("two", { height: 340 }, (made) => {
  const { models } = state.space;
  if (models.length < 2 || (models.length === 2 && column("measured_s"))) return null; // drawn above
  const { of } = agreement(), [a, b] = agree.pair || [0, 1];
  if (!of.length) return null;
  const relative = (name) => { const t = ofModel("time_s", name).values, [low] = extent(t); return Float64Array.from(t, (x) => x / low); };
  const x = relative(models[a]), y = relative(models[b]), points = [];
  for (let i = 0; i < n(); i++) if (Number.isFinite(x[i]) && Number.isFinite(y[i])) points.push(i);
  made.say(`${models[a]} beside ${models[b]}`, "How many times slower than its own fastest each of the two models holds a configuration; on the line both say the same.");
  colours(made, ofModel("bottleneck"), points);
  return scatter(made, {
    x: { values: x, title: `slower than the fastest, by ${models[a]} (times)`, short: models[a], log: true }, y: { values: y, title: `by ${models[b]} (times)`, short: models[b], log: true },
    points, colour: ofModel("bottleneck"), brush: true, label: `${models[a]} beside ${models[b]}.`,
    over: (svg, sx, sy, inside) => { const end = Math.min(sx.domain[1], sy.domain[1]); svg.prepend(element("path", { class: "dash", d: `M${sx(Math.max(1, sx.domain[0]))} ${sy(Math.max(1, sy.domain[0]))}L${sx(end)} ${sy(end)}` })); },
  });
});

// ---- predicted and measured ---------------------------------------------------------------------------------------

figure("measured", {}, (made) => {
  const measured = column("measured_s");
  if (!measured) return null;
  const models = state.space.models.filter((name) => name !== "measured");
  made.say("Predicted against measured", "");
  if (!models.length) return "These files have measured times only.";
  const model = choice(made, "model", "predicted by", models.map((name) => [name, name]), state.model === "measured" ? models[0] : state.model).value;
  const predicted = ofModel("time_s", model).values;
  const points = []; for (let i = 0; i < n(); i++) if (Number.isFinite(predicted[i]) && Number.isFinite(measured.values[i])) points.push(i);
  if (!points.length) return "No configuration has both a predicted and a measured time.";
  const ratio = Float64Array.from(points, (i) => predicted[i] / measured.values[i]).sort(), middle = quantile(ratio, 0.5);
  const spearman = correlation(points, predicted, measured.values);
  made.say(`Rank correlation ${spearman.toFixed(2)} with ${plural(points.length, "measured time")}`, `On the line the prediction equals the measured time; half of the predictions are below ${number(middle, 3)} times it.`);
  const domain = whole([Float64Array.from(points, (i) => predicted[i]), Float64Array.from(points, (i) => measured.values[i])]).map((x, k) => (k ? x * 1.08 : x / 1.08));
  colours(made, ofModel("bottleneck", model), points);
  return scatter(made, {
    x: { values: measured.values, unit: "s", title: "measured time", log: true, domain }, y: { values: predicted, unit: "s", title: `predicted by ${model}`, short: "predicted", log: true, domain },
    points, colour: ofModel("bottleneck", model), brush: true, label: `Predicted against measured time, rank correlation ${spearman.toFixed(2)}.`,
    over: (svg, sx, sy) => svg.prepend(element("path", { class: "dash", d: `M${sx(domain[0])} ${sy(domain[0])}L${sx(domain[1])} ${sy(domain[1])}` })),
  });
});

figure("progress", {}, (made) => {
  const numbers = column("number"), measured = column("measured_s");
  if (!numbers || !measured) return null;
  const points = []; for (let i = 0; i < n(); i++) if (Number.isFinite(measured.values[i])) points.push(i);
  if (!points.length) return "No measurement gave a time.";
  points.sort((a, b) => numbers.values[a] - numbers.values[b]);
  let least = Infinity; const steps = [];
  for (const i of points) if (measured.values[i] < least) { least = measured.values[i]; steps.push(i); }
  const last = steps[steps.length - 1];
  made.say(`The fastest was found by measurement ${number(numbers.values[last])} of ${number(numbers.values[points[points.length - 1]])}`, "Each measurement in order; the line is the fastest until then.");
  return scatter(made, {
    x: { values: numbers.values, title: "measurement", whole: true }, y: { values: measured.values, unit: "s", title: "measured time", log: true }, points, brush: true, label: "Measured times in order.",
    over: (svg, sx, sy, inside) => svg.append(element("path", { class: "strong", d: steps.map((i, k) => (k ? `H${sx(numbers.values[i])}V${sy(measured.values[i])}` : `M${sx(numbers.values[i])} ${sy(measured.values[i])}`)).join("") + `H${inside.right}` })),
  });
});
