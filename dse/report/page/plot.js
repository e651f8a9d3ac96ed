// A figure with axes: marks on a canvas, everything else in SVG above and below it.
"use strict";
const HEIGHT = 300;

// Make a figure. `draw(figure)` fills it and returns the number of marks; 0 or a text says why there are none.
function figure(id, { height = HEIGHT } = {}, draw) {
  const title = element("h3", { id: id + "-title" }), caption = element("figcaption");
  const controls = element("div", { class: "controls" }), body = element("div"), legend = element("ul", { class: "legend" });
  const root = element("figure", { id, role: "group", "aria-labelledby": id + "-title" }, title, caption, controls, body, legend);
  $("figures").append(root);
  const made = {
    id, root, title, caption, controls, body, legend, height,
    say(heading, text) { title.textContent = heading; caption.textContent = text; },
    draw() {
      root.hidden = !state.model || (n() < 3 && id !== "roofline"); // two points make no picture
      if (root.hidden) return;
      const told = draw(made);
      const marks = typeof told === "number" ? told : 0;
      root.dataset.marks = marks;
      root.hidden = told === null;
      if (typeof told === "string") {
        body.replaceChildren(element("p", { class: "none" }, told));
        legend.replaceChildren();
        controls.replaceChildren();
        made.plot = null;
      }
    },
    focus(i) { if (made.plot) made.plot.ring(i); },
  };
  charts.push(made);
  return made;
}

// A choice above a figure, kept while its options stay the same.
function choice(made, name, label, options, preferred, changed) {
  let box = made.controls.querySelector(`select[name="${name}"]`);
  const wanted = JSON.stringify(options);
  if (!box || box.dataset.options !== wanted) {
    const fresh = element("select", { name, onchange: () => (changed ? changed(fresh.value) : made.draw()) });
    fresh.dataset.options = wanted;
    for (const [value, text] of options) fresh.append(element("option", { value }, text));
    fresh.value = options.some(([value]) => value === preferred) ? preferred : options[0][0];
    if (box) box.replaceWith(fresh);
    else made.controls.append(element("label", {}, label + " ", fresh));
    box = fresh;
  }
  return box;
}

// ---- scales -------------------------------------------------------------------------------------------------------

function linear(low, high, from, to) {
  if (low === high) { const pad = Math.abs(low) * 0.05 || 0.5; low -= pad; high += pad; }
  const scale = (x) => from + ((x - low) / (high - low)) * (to - from);
  scale.invert = (p) => low + ((p - from) / (to - from)) * (high - low);
  scale.ticks = (count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999), ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  };
  scale.domain = [low, high];
  return scale;
}

function log(low, high, from, to) {
  if (!(low > 0)) low = 1e-12;
  if (!(high / low > 1.05)) { low /= 1.05; high *= 1.05; }
  const a = Math.log(low), b = Math.log(high);
  const scale = (x) => from + ((Math.log(x) - a) / (b - a)) * (to - from);
  scale.invert = (p) => Math.exp(a + ((p - from) / (to - from)) * (b - a));
  scale.ticks = (count) => {
    const decades = (b - a) / Math.LN10;
    if (decades < 0.7) return linear(low, high, from, to).ticks(count).filter((x) => x > 0);
    const mantissas = decades < 1.6 ? [1, 2, 3, 5] : decades < 4 ? [1, 3] : [1], ticks = [];
    const every = Math.max(1, Math.ceil(decades / count));
    for (let e = Math.floor(a / Math.LN10); e <= Math.ceil(b / Math.LN10); e++)
      if (mantissas.length > 1 || e % every === 0)
        for (const m of mantissas) { const x = m * 10 ** e; if (x >= low * 0.9999 && x <= high * 1.0001) ticks.push(x); }
    return ticks;
  };
  scale.domain = [low, high];
  scale.log = true;
  return scale;
}

function extent(values, chosen) {
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < values.length; i++) {
    if (chosen && !chosen(i)) continue;
    const x = values[i];
    if (Number.isFinite(x)) { if (x < low) low = x; if (x > high) high = x; }
  }
  return [low, high];
}

// ---- a plot of points ---------------------------------------------------------------------------------------------

// `x` and `y`: { values, unit, title, log, zero, domain }. `points` are the numbers of configurations that are drawn.
function scatter(made, { x, y, points, colour, label, brush, over, square }) {
  const width = Math.max(260, made.body.clientWidth || made.root.clientWidth || 560);
  const height = square ? Math.min(width, 420) : made.height;
  const margin = { left: 62, right: 14, top: 10, bottom: 44 };
  const inside = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const axis = (given, from, to) => {
    let [low, high] = given.domain || extent(given.values, (i) => made.member[i]);
    if (!Number.isFinite(low)) [low, high] = [0, 1];
    if (given.log) { const pad = (high / low) ** 0.04 || 1.05; return log(low / pad, high * pad, from, to); }
    const pad = given.domain ? 0 : (high - low) * 0.04;
    return linear(given.zero && low >= 0 ? 0 : low - pad, high + pad, from, to);
  };
  made.member = new Uint8Array(n());
  for (const i of points) made.member[i] = 1;
  const sx = axis(x, inside.left, inside.right), sy = axis(y, inside.bottom, inside.top);

  const ratio = Math.max(2, window.devicePixelRatio || 1);
  const canvas = element("canvas", { width: width * ratio, height: height * ratio, role: "img", "aria-label": label });
  const below = element("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });
  const above = element("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });
  const box = element("div", { class: "plot" + (brush ? " brushable" : ""), style: `height:${height}px` }, below, canvas, above);
  axes(below, sx, sy, x, y, inside, width);

  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.beginPath();
  context.rect(inside.left - 4, inside.top - 4, inside.right - inside.left + 8, inside.bottom - inside.top + 8);
  context.clip();
  const px = new Float32Array(n()).fill(NaN), py = new Float32Array(n()).fill(NaN);
  for (const i of points) { px[i] = sx(x.values[i]); py[i] = sy(y.values[i]); }
  const r = points.length < 400 ? 3.6 : points.length < 4000 ? 2.2 : points.length < 30000 ? 1.5 : 1.1;
  const dot = (i) => {
    if (r > 2) { context.moveTo(px[i] + r, py[i]); context.arc(px[i], py[i], r, 0, 7); }
    else context.rect(px[i] - r, py[i] - r, 2 * r, 2 * r);
  };
  const layer = (chosen, fill, alpha) => {
    context.fillStyle = fill; context.globalAlpha = alpha; context.beginPath();
    let drawn = 0;
    for (const i of points) if (chosen(i) && px[i] === px[i] && py[i] === py[i]) { dot(i); drawn++; }
    context.fill();
    return drawn;
  };
  const all = state.count === n();
  let marks = all ? 0 : layer((i) => !state.mask[i], css("--dim"), 0.8);
  const alpha = points.length > 3000 ? 0.55 : 0.78;
  if (colour && colour.codes)
    colour.names.forEach((name, code) => (marks += layer((i) => state.mask[i] && colour.codes[i] === code, hue(name), alpha)));
  else marks += layer((i) => state.mask[i], hue(null), alpha);

  if (over) over(above, sx, sy, inside);
  const ring = element("circle", { class: "ring", r: r + 4, visibility: "hidden" });
  above.append(ring);
  const plot = {
    ring(i) {
      const seen = i >= 0 && px[i] === px[i] && py[i] === py[i];
      ring.setAttribute("visibility", seen ? "visible" : "hidden");
      if (seen) { ring.setAttribute("cx", px[i]); ring.setAttribute("cy", py[i]); }
    },
  };
  plot.ring(state.focus);
  const nearest = (mx, my) => {
    let best = -1, least = 18 * 18;
    for (const i of points) { const d = (px[i] - mx) ** 2 + (py[i] - my) ** 2; if (d < least && state.mask[i]) { least = d; best = i; } }
    return best;
  };
  pointer(made, box, above, inside, width, { sx, sy, x, y, nearest, brush });
  made.body.replaceChildren(box);
  made.plot = plot;
  return marks;
}

// Hover tells of the nearest point, a click keeps it, a drag chooses what lies within.
function pointer(made, box, above, inside, width, { sx, sy, x, y, nearest, brush }) {
  const old = made.brushed;
  const frame = element("rect", { class: "brush", visibility: "hidden" });
  above.append(frame);
  const place = (a, b) => {
    frame.setAttribute("visibility", "visible");
    frame.setAttribute("x", Math.min(a[0], b[0])); frame.setAttribute("y", Math.min(a[1], b[1]));
    frame.setAttribute("width", Math.abs(a[0] - b[0])); frame.setAttribute("height", Math.abs(a[1] - b[1]));
  };
  if (old && state.filters.has(made.id)) place([sx(old.x0), sy(old.y0)], [sx(old.x1), sy(old.y1)]);
  const at = (event) => {
    const rect = box.getBoundingClientRect(), zoom = width / rect.width;
    return [(event.clientX - rect.left) * zoom, (event.clientY - rect.top) * zoom];
  };
  const clamp = ([a, b]) => [Math.max(inside.left, Math.min(inside.right, a)), Math.max(inside.top, Math.min(inside.bottom, b))];
  box.addEventListener("pointermove", (event) => {
    if (made.drag) return;
    const i = nearest(...at(event));
    tip(event, i); focus(i);
  });
  box.addEventListener("pointerleave", () => { if (!made.drag) { tip(null, -1); } });
  box.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const begin = clamp(at(event));
    made.drag = true;
    const move = (event) => {
      const end = clamp(at(event));
      if (Math.hypot(end[0] - begin[0], end[1] - begin[1]) < 5 || !brush) return;
      tip(null, -1); place(begin, end);
      made.pending = [begin, end];
    };
    const up = (event) => {
      removeEventListener("pointermove", move); removeEventListener("pointerup", up); removeEventListener("pointercancel", up);
      made.drag = false;
      if (made.pending) {
        const [a, b] = made.pending; made.pending = null;
        const xs = [sx.invert(a[0]), sx.invert(b[0])].sort((p, q) => p - q), ys = [sy.invert(a[1]), sy.invert(b[1])].sort((p, q) => p - q);
        made.brushed = { x0: xs[0], x1: xs[1], y0: ys[0], y1: ys[1] };
        const range = (given, [low, high]) => `${given.short || given.title} ${quantity(low, given.unit, 3)} to ${quantity(high, given.unit, 3)}`;
        const xv = x.values, yv = y.values, member = made.member;
        filter(made.id, `${range(x, xs)}, ${range(y, ys)}`, (i) => member[i] && xv[i] >= xs[0] && xv[i] <= xs[1] && yv[i] >= ys[0] && yv[i] <= ys[1]);
      } else if (event.type === "pointerup") {
        const i = nearest(...at(event));
        if (i >= 0) focus(i, true);
        else if (state.filters.has(made.id)) filter(made.id);
      }
    };
    addEventListener("pointermove", move); addEventListener("pointerup", up); addEventListener("pointercancel", up);
  });
}

function axes(svg, sx, sy, x, y, inside, width) {
  const [xw, xu] = prefix(typical(sx), x.unit), [yw, yu] = prefix(typical(sy), y.unit);
  const per = (inside.right - inside.left) / 85;
  let last = -Infinity;
  for (const tick of round(sx, xw, Math.max(3, per))) {
    const p = sx(tick), text = tickText(tick / xw);
    if (x.whole && !Number.isInteger(tick)) continue;
    if (p < inside.left - 0.5 || p > inside.right + 0.5) continue;
    svg.append(element("line", { class: "grid", x1: p, x2: p, y1: inside.top, y2: inside.bottom }));
    if (p - last < 7 * text.length + 8) continue;
    last = p;
    svg.append(element("text", { x: p, y: inside.bottom + 16, "text-anchor": "middle" }, text));
  }
  for (const tick of round(sy, yw, 5)) {
    const p = sy(tick);
    if (p < inside.top - 0.5 || p > inside.bottom + 0.5) continue;
    svg.append(element("line", { class: "grid", x1: inside.left, x2: inside.right, y1: p, y2: p }));
    svg.append(element("text", { x: inside.left - 7, y: p + 4, "text-anchor": "end" }, tickText(tick / yw)));
  }
  svg.append(element("text", { class: "axis", x: (inside.left + inside.right) / 2, y: inside.bottom + 36, "text-anchor": "middle" }, titled(x, xu)));
  svg.append(element("text", { class: "axis", x: -(inside.top + inside.bottom) / 2, y: 13, transform: "rotate(-90)", "text-anchor": "middle" }, titled(y, yu)));
}

// Ticks that are round numbers of the unit that the axis has.
const round = (scale, worth, count) => (scale.log ? log : linear)(scale.domain[0] / worth, scale.domain[1] / worth, 0, 1).ticks(count).map((x) => x * worth);
const typical = (scale) => (scale.log ? Math.sqrt(scale.domain[0] * scale.domain[1]) : Math.max(Math.abs(scale.domain[0]), Math.abs(scale.domain[1])) / 2);
const titled = (given, unit) => (unit && unit !== "1" ? `${given.title} (${unit})` : given.title);
function tickText(x) {
  const a = Math.abs(x);
  if (a !== 0 && (a >= 1e6 || a < 1e-3)) return x.toExponential(0).replace("e+", "e");
  return x.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

// The colours of the bottlenecks that the chosen model finds; a click chooses one.
function colours(made, colour, points) {
  made.legend.replaceChildren();
  if (!colour) return;
  const counts = new Map();
  for (const i of points) counts.set(colour.codes[i], (counts.get(colour.codes[i]) || 0) + 1);
  for (const [code, count] of [...counts].sort((a, b) => b[1] - a[1])) {
    const name = colour.names[code];
    if (name === null) continue;
    const pick = () => filter("bottleneck", `bottleneck ${name}`, state.filters.get("bottleneck")?.label === `bottleneck ${name}` ? null : (i) => colour.codes[i] === code);
    made.legend.append(element("li", {}, element("button", { type: "button", onclick: pick }, element("i", { style: `background:${hue(name)}` }), `${name} (${number(count)})`)));
  }
}
