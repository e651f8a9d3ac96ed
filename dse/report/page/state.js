// The one state of the page: a kernel on a GPU, by whose time, and which configurations are chosen.
"use strict";
const state = { space: null, columns: null, model: null, time: null, filters: new Map(), mask: null, count: 0, focus: -1 };
const charts = []; // each has draw(), and perhaps focus()

const column = (name) => state.columns.get(name);
const ofModel = (name, model = state.model) => state.columns.get(`${name}|${model}`);
const n = () => state.space.shown;

async function show(space, model) {
  state.space = space;
  state.columns = await unpack(space);
  state.model = space.models.includes(model) ? model : space.models[0] || null;
  state.filters.clear();
  state.focus = -1;
  settle();
}

function settle() {
  state.time = state.model ? ofModel("time_s").values : new Float64Array(n()).fill(NaN);
  state.order = Array.from({ length: n() }, (_, i) => i).filter((i) => Number.isFinite(state.time[i]));
  state.order.sort((a, b) => state.time[a] - state.time[b] || a - b);
  state.rank = new Int32Array(n());
  state.order.forEach((i, place) => (state.rank[i] = place + 1));
  location.replace("#" + new URLSearchParams({ kernel: state.space.kernel, gpu: state.space.gpu, model: state.model || "" }));
  select();
}

// A filter is a name, a label for people, and whether it takes each configuration; without `test` it is dropped.
function filter(name, label, test) {
  if (!test) state.filters.delete(name);
  else {
    const bits = new Uint8Array(n());
    for (let i = 0; i < bits.length; i++) bits[i] = test(i) ? 1 : 0;
    state.filters.set(name, { label, bits });
  }
  soon();
}

function maskWithout(name) {
  const mask = new Uint8Array(n()).fill(1);
  for (const [key, { bits }] of state.filters) if (key !== name) for (let i = 0; i < mask.length; i++) mask[i] &= bits[i];
  return mask;
}

let waiting = false;
function soon() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => { waiting = false; select(); }, 16);
}

function select() {
  state.mask = maskWithout(null);
  state.count = state.mask.reduce((sum, x) => sum + x, 0);
  redraw();
}

function redraw() {
  for (const chart of charts) chart.draw();
}

function focus(i, scroll = false) {
  if (state.focus === i && !scroll) return;
  state.focus = i;
  for (const chart of charts) if (chart.focus) chart.focus(i, scroll);
}

// What the tooltip tells of a configuration.
function told(i) {
  const { space, columns } = state, lines = [];
  const rank = state.rank[i] ? `rank ${number(state.rank[i])}` : "cannot run";
  lines.push(element("b", {}, quantity(state.time[i], "s")), ` ${rank}`);
  const low = ofModel("low_s"), bottleneck = ofModel("bottleneck");
  if (low) lines.push(element("br"), `interval ${quantity(low.values[i], "s")} to ${quantity(ofModel("high_s").values[i], "s")}`);
  if (columns.has("measured_s") && state.model !== "measured") lines.push(element("br"), `measured ${quantity(columns.get("measured_s").values[i], "s")}`);
  if (bottleneck) lines.push(element("br"), element("span", {}, "bottleneck "), cell(bottleneck, i));
  if (columns.has("occupancy")) lines.push(element("br"), element("span", {}, "occupancy "), percent(columns.get("occupancy").values[i]));
  lines.push(element("br"), element("span", {}, space.parameters.map((name) => `${name} ${cell(columns.get(name), i)}`).join(", ")));
  return lines;
}

function cell(made, i) {
  if (made.codes && made.names) return made.names[made.codes[i]] ?? "–";
  const x = made.values[i];
  return made.unit === "s" ? quantity(x, "s") : number(x);
}

function tip(event, i, lines) {
  const box = $("tip");
  if (!lines && i < 0) { box.hidden = true; return; }
  box.replaceChildren(...(lines || told(i)));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  box.style.left = Math.max(4, x) + "px";
  box.style.top = Math.max(4, Math.min(innerHeight - height - 4, event.clientY + 12)) + "px";
}
