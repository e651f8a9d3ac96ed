// The page: what is chosen, the overview above, and redrawing when the window, the theme or the paper changes.
"use strict";

function overview() {
  if (DATA.spaces.length < 2) return;
  const kernels = [...new Set(DATA.spaces.map((s) => s.kernel))], gpus = [...new Set(DATA.spaces.map((s) => s.gpu))];
  $("overview").hidden = false;
  const card = (space) => {
    const model = space.models.includes(state.model) ? state.model : space.models[0], told = space.summary[model];
    if (!told) return element("td");
    const most = Math.max(...told.histogram, 1), dark = hue(told.bottleneck);
    const bars = told.histogram.map((count, k) => element("rect", { x: k * 5, width: 4.2, y: 26 - 25 * (count / most), height: 25 * (count / most) + (count ? 1 : 0), fill: dark, opacity: 0.75 }));
    return element("td", {}, element("button", { class: "card", type: "button", "aria-pressed": String(space === state.space), onclick: () => choose(space) },
      element("b", {}, quantity(told.fastest_s, "s")), element("small", {}, `${told.bottleneck ? told.bottleneck + ", " : ""}${space.count > 1 ? `slowest ${number(told.slowest_s / told.fastest_s, 2)}×` : "one configuration"}`),
      element("svg", { viewBox: "0 0 120 26", preserveAspectRatio: "none", role: "img", "aria-label": "Spread of times" }, ...bars), element("small", {}, plural(space.count, "configuration"))));
  };
  $("cards").replaceChildren(element("thead", {}, element("tr", {}, element("td"), ...gpus.map((gpu) => element("th", { scope: "col" }, gpu)))),
    element("tbody", {}, ...kernels.map((kernel) => element("tr", {}, element("th", { scope: "row" }, kernel), ...gpus.map((gpu) => {
      const space = DATA.spaces.find((s) => s.kernel === kernel && s.gpu === gpu);
      return space ? card(space) : element("td");
    })))));
  $("overview").dataset.marks = DATA.spaces.length;
}

function options(box, values, chosen) {
  box.replaceChildren(...values.map((value) => element("option", { value }, value)));
  box.value = chosen;
  box.disabled = values.length < 2;
}

function bar() {
  const { space } = state;
  $("paper").textContent = `${space.kernel} on ${space.gpu}, ${byModel()}`; // on paper nothing is chosen
  options($("kernel"), [...new Set(DATA.spaces.map((s) => s.kernel))], space.kernel);
  options($("gpu"), DATA.spaces.filter((s) => s.kernel === space.kernel).map((s) => s.gpu), space.gpu);
  options($("model"), space.models, state.model);
}

function chips() {
  $("chosen").textContent = state.filters.size ? `${number(state.count)} of ${plural(n(), "configuration")} chosen` : `${plural(n(), "configuration")}`;
  const drop = (name) => () => { filter(name); if (name.startsWith("table ")) { delete table.texts[name.slice(6)]; tableHead(); } };
  $("chips").replaceChildren(...[...state.filters].map(([name, { label }]) => element("button", { class: "chip", type: "button", "aria-label": `Drop ${label}`, onclick: drop(name) }, label)));
}

// The parameters of the fastest: those that vary, then those that do not.
function spelled(varying, fixed) {
  if (!varying.length || !fixed.length) return [[...varying, ...fixed].join(", ")];
  return [`${varying.join(", ")} (the same in all: ${fixed.join(", ")})`];
}

function glance() {
  const { space } = state, box = $("glance");
  if (!state.order.length) { box.replaceChildren(element("div", { class: "best" }, "No times to draw: the files have none of these configurations.")); return; }
  const top = state.order[0], fact = (value, text) => element("div", {}, element("strong", {}, value), element("span", {}, text));
  const bottleneck = ofModel("bottleneck"), missing = n() - state.order.length;
  const fixed = Object.entries(space.fixed).map(([name, value]) => `${name} ${typeof value === "number" ? number(value) : value}`);
  box.replaceChildren(...[
    fact(quantity(best(), "s"), `fastest, ${byModel()}`), fact(number(slower(0.05)), "within 5 % of it"), fact(quantity(state.time[state.order[state.order.length >> 1]], "s"), "median"),
    bottleneck ? fact(cell(bottleneck, top), "limits the fastest") : null, column("occupancy") ? fact(percent(column("occupancy").values[top]), "its occupancy") : null,
    missing ? fact(number(missing), state.model === "measured" ? "without a measured time" : "cannot run") : null,
    element("div", { class: "best" }, element("b", {}, "Fastest: "), ...spelled(space.parameters.map((name) => `${name} ${cell(column(name), top)}`), fixed))].filter(Boolean));
}

charts.unshift({ draw() { chips(); glance(); } });

async function choose(space, model = state.model) {
  await show(space, model);
  bar();
  overview();
}

$("kernel").addEventListener("change", () => choose(DATA.spaces.find((s) => s.kernel === $("kernel").value && s.gpu === state.space.gpu) || DATA.spaces.find((s) => s.kernel === $("kernel").value)));
$("gpu").addEventListener("change", () => choose(DATA.spaces.find((s) => s.kernel === $("kernel").value && s.gpu === $("gpu").value)));
$("model").addEventListener("change", () => { state.model = $("model").value; state.filters.clear(); settle(); bar(); overview(); });

// ---- theme, window, paper -----------------------------------------------------------------------------------------

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function theme(name) {
  document.documentElement.dataset.theme = name;
  if (state.space) { redraw(); overview(); }
}
prefersDark.addEventListener("change", () => theme(prefersDark.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
let before = null;
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; theme("light"); tableWindow(true, 40); });
addEventListener("afterprint", () => { theme(before); });
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; soon(); } });
addEventListener("keydown", (event) => { if (event.key === "Escape" && state.filters.size) { state.filters.clear(); table.texts = {}; tableHead(); soon(); } });

function scores() {
  if (!DATA.scores.length) return;
  $("scores").hidden = false;
  const names = [...new Set(DATA.scores.flatMap((row) => Object.keys(row)))].filter((name) => DATA.scores.some((row) => row[name] !== null && row[name] !== undefined));
  const files = new Set(DATA.scores.map((row) => row.file)), shown = names.filter((name) => name !== "file" || files.size > 1);
  shown.sort((a, b) => (b === "model") - (a === "model"));
  const metered = (name) => name === "spearman" || name.startsWith("top_");
  $("score-table").replaceChildren(element("thead", {}, element("tr", {}, ...shown.map((name) => element("th", { scope: "col", class: DATA.scores.some((row) => typeof row[name] === "string") ? "word" : "" }, name.replace("_percent", " %").replaceAll("_", " "))))),
    element("tbody", {}, ...DATA.scores.map((row) => element("tr", {}, ...shown.map((name) => {
      const x = row[name];
      const meter = metered(name) && Number.isFinite(x) ? element("span", { class: "meter", "aria-hidden": true }, element("i", { style: `width:${Math.max(0, 100 * x)}%` })) : null;
      return element("td", { class: typeof x === "string" ? "word" : "" }, meter, typeof x === "number" ? (metered(name) ? x.toFixed(3) : number(x)) : x ?? "–");
    })))));
  $("scores").dataset.marks = DATA.scores.length;
}

function notes() {
  if (DATA.notes.length) $("notes").replaceChildren(element("h2", {}, "Notes"), element("ul", {}, ...DATA.notes.map((text) => element("li", {}, text))));
}

async function begin() {
  $("about").textContent = DATA.about;
  scores(); notes();
  if (!DATA.spaces.length) for (const id of ["bar", "glance", "figures", "rows"]) $(id).hidden = true;
  else {
    const asked = new URLSearchParams(location.hash.slice(1));
    const space = DATA.spaces.find((s) => s.kernel === asked.get("kernel") && s.gpu === asked.get("gpu")) || DATA.spaces[0];
    await choose(space, asked.get("model") || DATA.model);
  }
  document.body.dataset.drawn = "yes";
}
begin().catch((error) => {
  $("about").textContent = `This page could not be drawn: ${error.message}. It needs a browser of 2023 or later.`;
  document.body.dataset.failed = String(error.stack || error);
});
