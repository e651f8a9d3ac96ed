// What the page shows: columns unpacked from the page's own data, and numbers in words.
"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "rect", "path", "text", "circle", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A column: `values` of numbers (NaN where there is none), or `codes` into `names`.
async function unpack(space) {
  if (space.unpacked) return space.unpacked;
  const packed = Uint8Array.from(atob(space.blob), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const columns = new Map();
  let start = 0;
  for (const column of space.columns) {
    const n = space.shown, width = { u1: 1, u2: 2, i4: 4, f4: 4 }[column.type];
    const whole = new Uint8Array(n * width); // stored plane by plane: all first bytes, all second bytes
    for (let plane = 0; plane < width; plane++)
      for (let i = 0, from = start + plane * n; i < n; i++) whole[i * width + plane] = bytes[from + i];
    start += n * width;
    const raw = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array }[column.type];
    const array = new raw(whole.buffer);
    const made = { ...column };
    if (column.word) { made.codes = array; made.names = column.values; }
    else if (column.values) {
      const table = column.values.map((x) => (x === null ? NaN : x));
      made.values = Float64Array.from(array, (code) => table[code]);
      made.codes = array; made.levels = table;
    } else made.values = array;
    columns.set(column.name, made);
  }
  space.unpacked = columns;
  return columns;
}

const PREFIXES = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  "B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]],
  "instructions/s": [[1e12, "T instructions/s"], [1e9, "G instructions/s"], [1, "instructions/s"]],
};

// Choose the prefixed unit of a whole axis or column by a typical value: [worth, unit].
function prefix(typical, unit) {
  const list = PREFIXES[unit];
  if (!list) return [1, unit || ""];
  return list.find(([worth]) => Math.abs(typical) >= worth) || list[list.length - 1];
}

function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return "∞";
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return x.toLocaleString("en-US");
  if (Math.abs(x) >= 1e-4 && Math.abs(x) < 1e7)
    return x.toLocaleString("en-US", { minimumSignificantDigits: Math.min(digits, 3), maximumSignificantDigits: digits });
  return x.toExponential(2);
}

function quantity(x, unit, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const [worth, name] = prefix(x, unit);
  return number(x / worth, digits) + (name ? " " + name : "");
}

const percent = (x) => (Number.isFinite(x) ? Math.round(1000 * x) / 10 + " %" : "–");
const plural = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

// Values of a column at which a share of the (finite) values lies below.
function quantile(sorted, share) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : NaN;
}

// One colour a bottleneck, the same in the whole page; those not named here take what is left.
const HUES = {
  dram: ["#3a6ea5", "#6fa3d8"], memory: ["#3a6ea5", "#6fa3d8"], l2: ["#2f9e98", "#4fbdb6"], l1: ["#7aa845", "#9cc86a"],
  shared: ["#d99a2b", "#e8b45a"], fp32: ["#c4523c", "#e58672"], compute: ["#c4523c", "#e58672"],
  int32: ["#a85f9f", "#c98bc1"], latency: ["#6b5ca5", "#9d90d6"], lsu: ["#8a6a54", "#b59781"],
  issue: ["#6f7780", "#a3abb3"], sfu: ["#b8567f", "#dd86ab"], fp64: ["#8f3a2b", "#d97b68"],
};
const SPARE = [["#4d7f5f", "#82b394"], ["#9c7a1f", "#cfae55"], ["#5b6fb0", "#93a5e0"], ["#a0483f", "#d6857c"], ["#3d8fb0", "#74bfde"]];
const given = new Map();
function hue(name) {
  const dark = document.documentElement.dataset.theme === "dark" ? 1 : 0;
  if (name === null || name === undefined || name === "") return dark ? "#7fb4ea" : "#3a6ea5";
  if (HUES[name]) return HUES[name][dark];
  if (!given.has(name)) given.set(name, SPARE[given.size % SPARE.length]);
  return given.get(name)[dark];
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// From light (slow) to dark (fast), turned round on a dark page.
const RAMP = [[247, 244, 236], [214, 224, 214], [150, 190, 200], [78, 136, 180], [31, 78, 140], [17, 40, 88]];
function shade(share) {
  const dark = document.documentElement.dataset.theme === "dark";
  const ramp = dark ? [[35, 40, 46], [40, 62, 88], [46, 98, 140], [72, 146, 184], [140, 198, 205], [228, 238, 214]] : RAMP;
  const at = Math.max(0, Math.min(1, share)) * (ramp.length - 1), low = Math.min(ramp.length - 2, Math.floor(at));
  const mix = ramp[low].map((c, k) => Math.round(c + (ramp[low + 1][k] - c) * (at - low)));
  const ink = 0.299 * mix[0] + 0.587 * mix[1] + 0.114 * mix[2] > 140 ? "#16202c" : "#f4f6f8";
  return [`rgb(${mix})`, ink];
}
