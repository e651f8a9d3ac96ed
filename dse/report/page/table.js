// The table: only the rows in sight are in the page, so that a hundred thousand stay quick.
"use strict";
const table = { sort: ["rank", 1], texts: {}, rows: [], height: 27, marks: 0 };

const HEADINGS = {
  rank: "rank", time: "time", low: "interval from", high: "to", shared_bytes: "shared memory", limited_by: "limited by", measured_s: "measured", warps_per_sm: "warps", dram_bytes: "DRAM traffic",
};

// Columns of the table: { name, title, unit, word, value(i), text(i) }.
function tableColumns() {
  const { space, columns } = state, made = [], wide = $("wide").checked;
  const add = (name, title, unit, values) => {
    const [scale, prefixed, places] = worth(values, unit);
    const text = (i) => (Number.isFinite(values[i]) ? (values[i] / scale).toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }) : "–");
    made.push({ name, title, unit, value: (i) => values[i], text, shown: unit ? prefixed : "" });
  };
  const take = (name, title = HEADINGS[name] || name) => {
    const given = columns.get(name);
    if (!given) return;
    if (given.names) made.push({ name, title, word: true, value: (i) => given.names[given.codes[i]] ?? "", text: (i) => given.names[given.codes[i]] ?? "–", shown: "", colour: name.startsWith("bottleneck") });
    else if (name === "occupancy") made.push({ name, title, value: (i) => 100 * given.values[i], text: (i) => number(100 * given.values[i], 3), shown: "%" });
    else add(name, title, given.unit, given.values);
  };
  if (state.model) {
    made.push({ name: "rank", title: "rank", value: (i) => state.rank[i] || NaN, text: (i) => (state.rank[i] ? number(state.rank[i]) : "–"), shown: "" });
    take(`time_s|${state.model}`, state.model === "measured" ? "measured" : "time");
    if (ofModel("low_s")) { take(`low_s|${state.model}`, "interval from"); take(`high_s|${state.model}`, "to"); }
    if (columns.has("measured_s") && state.model !== "measured") take("measured_s");
    take(`bottleneck|${state.model}`, "bottleneck");
  }
  take("occupancy");
  for (const name of space.parameters) take(name);
  for (const name of ["number", "threads", "blocks", "registers", "shared_bytes", "limited_by"]) take(name);
  if (wide) {
    for (const name of columns.keys()) if (!name.includes("|") && !made.some((c) => c.name === name)) take(name);
    for (const model of space.models) if (model !== state.model && model !== "measured") take(`time_s|${model}`, model);
  }
  return made;
}

// The prefixed unit of a whole column and the decimals that give its median four digits: [worth, unit, decimals].
const worths = new WeakMap();
function worth(values, unit) {
  if (!worths.has(values)) {
    const sorted = Float64Array.from(values).filter((x) => Number.isFinite(x) && x).sort();
    const middle = Math.abs(quantile(sorted, 0.5)) || 1, [scale, prefixed] = prefix(middle, unit);
    const whole = sorted.every((x) => Number.isInteger(x / scale));
    worths.set(values, [scale, prefixed, whole ? 0 : Math.max(0, Math.min(12, 3 - Math.floor(Math.log10(middle / scale))))]);
  }
  return worths.get(values);
}

// What a filter's text takes: words, 64,128, >=32, 1..8. Numbers are those that the table shows.
function taken(text, shown) {
  const plain = text.trim().replace(/−/g, "-");
  const range = plain.match(/^(-?[\d.e+-]+)\s*(?:\.\.|…|\bto\b)\s*(-?[\d.e+-]+)$/), bound = plain.match(/^(<=|>=|<|>|=|!=)\s*(-?[\d.e+-]+)$/);
  if (shown.word) {
    const words = plain.toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
    return (i) => words.some((word) => shown.value(i).toLowerCase().includes(word));
  }
  const scale = shown.unit ? worth(column(shown.name).values, shown.unit)[0] : 1, near = (x, y) => Math.abs(x - y) <= 5e-4 * Math.abs(y) + 1e-12;
  const value = (i) => shown.value(i) / scale;
  if (range) return (i) => value(i) >= +range[1] && value(i) <= +range[2];
  if (bound) {
    const b = +bound[2];
    return { "<": (i) => value(i) < b, "<=": (i) => value(i) <= b, ">": (i) => value(i) > b, ">=": (i) => value(i) >= b, "=": (i) => near(value(i), b), "!=": (i) => !near(value(i), b) }[bound[1]];
  }
  const list = plain.split(",").filter((part) => part.trim() !== "").map(Number);
  if (!list.length || list.some(Number.isNaN)) return null;
  return (i) => list.some((x) => near(value(i), x));
}

function tableHead() {
  const shown = (table.columns = tableColumns());
  const box = $("table");
  const heads = shown.map((made) => element("th", { scope: "col", class: made.word ? "word" : "", "aria-sort": table.sort[0] === made.name ? (table.sort[1] > 0 ? "ascending" : "descending") : "none",
    onclick: () => { table.sort = [made.name, table.sort[0] === made.name ? -table.sort[1] : 1]; tableHead(); tableRows(); } }, made.title, element("small", {}, made.shown)));
  const filters = shown.map((made) => {
    const input = element("input", { type: "search", "aria-label": `Filter ${made.title}`, value: table.texts[made.name] || "", placeholder: made.word ? "" : "" });
    input.addEventListener("input", () => {
      table.texts[made.name] = input.value;
      const test = input.value.trim() ? taken(input.value, made) : null;
      input.setAttribute("aria-invalid", String(Boolean(input.value.trim() && !test)));
      filter(`table ${made.name}`, `${made.title} ${input.value.trim()}${made.shown ? " " + made.shown : ""}`, test);
    });
    return element("th", { class: made.word ? "word" : "" }, input);
  });
  table.body = element("tbody");
  box.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...heads), element("tr", { class: "filters" }, ...filters)), table.body));
}

function tableRows() {
  const by = table.columns.find((made) => made.name === table.sort[0]) || table.columns[0], way = table.sort[1];
  const rows = [];
  for (let i = 0; i < n(); i++) if (state.mask[i]) rows.push(i);
  if (by.word) rows.sort((a, b) => way * (by.value(a) < by.value(b) ? -1 : by.value(a) > by.value(b) ? 1 : a - b));
  else {
    const key = Float64Array.from({ length: n() }, (_, i) => (state.mask[i] ? by.value(i) : NaN));
    rows.sort((a, b) => { // those without a value come last either way
      const x = key[a], y = key[b];
      return x !== x ? (y !== y ? a - b : 1) : y !== y ? -1 : way * (x - y) || a - b;
    });
  }
  table.rows = rows;
  $("table").style.height = `min(34rem, ${Math.max(rows.length, 4) * table.height + 92}px)`;
  tableWindow(true);
}

function tableWindow(fresh = false, whole = 0) {
  const box = $("table"), { rows, height, columns } = table;
  const first = whole ? 0 : Math.max(0, Math.floor(box.scrollTop / height) - 8), count = whole || Math.ceil(box.clientHeight / height) + 16;
  if (!fresh && table.from === first) return;
  table.from = first;
  const last = Math.min(rows.length, first + count), pad = (h) => (h > 0 ? [element("tr", { "aria-hidden": true }, element("td", { colspan: columns.length, style: `height:${h}px;border:0;padding:0` }))] : []);
  const made = [];
  for (let k = first; k < last; k++) {
    const i = rows[k];
    made.push(element("tr", { class: i === state.focus ? "focus" : "", onclick: () => focus(i), onpointerenter: () => focus(i) },
      ...columns.map((c) => element("td", { class: c.word ? "word" : "" }, c.colour && c.value(i) ? element("i", { style: `background:${hue(c.value(i))}` }) : null, c.text(i)))));
  }
  table.body.replaceChildren(...pad(first * height), ...made, ...pad(whole ? 0 : (rows.length - last) * height));
  box.dataset.marks = made.length;
}

$("table").addEventListener("scroll", () => tableWindow());
$("wide").addEventListener("change", () => { tableHead(); tableRows(); });
$("save").addEventListener("click", () => {
  const quote = (x) => (/[",\n]/.test(x) ? `"${x.replace(/"/g, '""')}"` : x);
  const text = [table.columns.map((c) => quote(c.name)).join(","), ...table.rows.map((i) => table.columns.map((c) => quote(String(c.value(i)))).join(","))].join("\n") + "\n";
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `${state.space.kernel}.csv` });
  link.click();
  URL.revokeObjectURL(link.href);
});

charts.push({
  draw() { if (table.space !== state.space || table.model !== state.model) { table.space = state.space; table.model = state.model; table.texts = {}; table.sort = [state.model ? "rank" : state.space.parameters[0], 1]; tableHead(); $("table").scrollTop = 0; } tableRows(); },
  focus(i, scroll) {
    const at = scroll ? table.rows.indexOf(i) : -1;
    if (at >= 0) { $("table").scrollTop = Math.max(0, at * table.height - 100); }
    for (const row of table.body.rows) row.classList.remove("focus");
    const place = table.rows.indexOf(i) - table.from;
    const row = [...table.body.rows].filter((r) => !r.ariaHidden)[place];
    if (row) row.classList.add("focus");
  },
});
