// Draws the charts of the payload, lists the factors, and searches rows.
// Names from the data reach the page through textContent and Vega only, never as markup.
(() => {
  "use strict";
  const found = JSON.parse(document.getElementById("payload").textContent);
  const { charts, templates, factors, short, rows } = found;
  const K = factors.length;
  const FIRST_FACTORS = 12, BARS = 10, OPTIONS = 50, NEAREST = 8, TABLE_ROWS = 500;
  const byId = (id) => document.getElementById(id);
  const percent = (x) => x > 0 && x < 0.0005 ? "< 0.1%" : (x * 100).toFixed(x < 0.0995 ? 1 : 0) + "%";
  const number = (x) => x.toLocaleString("en", { maximumSignificantDigits: 4 });

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // ---------------------------------------------------------------- charts

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // host of a chart → how to draw it again

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [ink, muted, line, accent] = ["--ink", "--muted", "--line", "--accent"].map(colour);
    const text = { labelColor: ink, titleColor: muted, titleFontWeight: 500, labelFontSize: 12,
      titleFontSize: 12 };
    const heat = [0, 1, 2, 3, 4].map((i) => colour("--heat-" + i));
    return {
      params: [{ name: "accent", value: accent }, { name: "muted", value: muted }],
      config: {
        background: null, font: getComputedStyle(document.body).fontFamily, view: { stroke: null },
        axis: { ...text, gridColor: line, domainColor: line, tickColor: line },
        legend: { ...text, orient: "top", columns: { signal: "width < 320 ? 2 : 6" } },
        bar: { color: accent }, point: { color: accent },
        range: { category: [1, 2, 3, 4, 5, 6].map((i) => colour("--chain-" + i)),
          heatmap: heat, ramp: heat },
        scale: { rectBandPaddingInner: 0 },
      },
    };
  }

  async function draw(host, spec, values, options = {}) {
    drawn.set(host, () => draw(host, spec, values, options));
    const { params, config } = theme();
    const actions = options.save ? { export: true, source: false, compiled: false, editor: false } : false;
    // `ast` keeps Vega from compiling expressions, which the page's policy forbids.
    const result = await vegaEmbed(host, { ...spec, params, config, data: { values } }, {
      mode: "vega-lite", ast: true, renderer: options.canvas ? "canvas" : "svg", actions });
    if (host.view) host.view.finalize();
    host.view = result.view;
  }

  const heightOf = (bars) => 45 + 20 * bars.length; // axis and bars

  const waiting = new Map(); // host → first drawing, put off until it comes near the screen
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) start(target);
  }, { rootMargin: "400px" });

  function start(host) {
    observer.unobserve(host);
    const task = waiting.get(host);
    waiting.delete(host);
    if (task) task().catch((error) => console.error(error));
  }

  function drawLater(host, spec, values, options) {
    host.style.minHeight = spec.height + "px"; // so that the page does not grow while one reads
    waiting.set(host, () => draw(host, spec, values(), options));
    observer.observe(host);
  }

  dark.addEventListener("change", () => drawn.forEach((again) => again()));
  window.addEventListener("beforeprint", () => [...waiting.keys()].forEach(start));

  function records(table) {
    const names = Object.keys(table);
    return table[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, table[name][i]])));
  }

  function cell(value) {
    return typeof value === "number" ? number(value) : String(value ?? "");
  }

  function tableOf(caption, heads, lines, most = TABLE_ROWS) {
    const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col", textContent: text })));
    const body = lines.slice(0, most).map((line) => element("tr", {}, ...line.map((value, at) => {
      const made = element(at ? "td" : "th", at ? {} : { scope: "row" });
      value instanceof Node ? made.append(value) : (made.textContent = cell(value));
      if (typeof value === "string") made.className = "name";
      return made;
    })));
    return element("div", { className: "scroll" }, element("table", {},
      element("caption", { textContent: caption }), element("thead", {}, head), element("tbody", {}, ...body)));
  }

  function asTable(title, make) {
    const details = element("details", {}, element("summary", { textContent: title }));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(make());
    });
    return details;
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const name = figure.dataset.chart, chart = charts[name];
    if (!chart) { figure.hidden = true; continue; }
    const host = element("div", { className: "plot" });
    figure.append(host);
    if (name !== "traces") {
      drawLater(host, chart.spec, () => records(chart.table), { canvas: chart.canvas, save: true });
    }
    if (chart.heads) {
      const caption = figure.querySelector("figcaption").textContent.replace(/\s+/g, " ");
      figure.append(asTable("Show as a table", () => tableOf(caption, Object.values(chart.heads),
        records(chart.table).map((line) => Object.keys(chart.heads).map((key) => line[key])))));
    }
  }

  // ---------------------------------------------------------------- traces

  const choice = byId("trace-choice"), traces = charts.traces;
  const traceHost = document.querySelector('figure[data-chart="traces"] .plot');
  for (const { name, title } of traces.quantities) choice.append(element("option", { value: name, textContent: title }));
  function traceValues() {
    const quantity = traces.quantities[choice.selectedIndex];
    const flat = quantity.values.flat();
    return records(traces.table).map((line, i) => ({ ...line, value: flat[i] }));
  }
  drawLater(traceHost, traces.spec, traceValues, { save: true });
  choice.addEventListener("change", () => {
    waiting.delete(traceHost);
    draw(traceHost, traces.spec, traceValues(), { save: true }).catch((error) => console.error(error));
  });

  // ---------------------------------------------------------------- rows

  // A byte is 255 times the root of a share.
  const bytes = Uint8Array.from(atob(rows.shares), (c) => c.charCodeAt(0));
  const share = (row, k) => (bytes[row * K + k] / 255) ** 2;
  const lower = rows.names.map((name) => name.toLowerCase());
  const known = new Map(rows.names.map((name, i) => [name, i]));
  const norms = rows.names.map((_, row) => {
    let total = 0;
    for (let k = 0; k < K; k++) total += share(row, k) ** 2;
    return Math.sqrt(total);
  });

  function rowLink(name) {
    const row = known.get(name);
    if (row === undefined) return element("span", { className: "name", textContent: name });
    const button = element("button", { type: "button", className: "link name", textContent: name });
    button.addEventListener("click", () => { showRow(row); byId("row-result").querySelector("h3").focus(); });
    return button;
  }

  function nearest(row) {
    const own = Array.from({ length: K }, (_, k) => share(row, k));
    if (!norms[row]) return [];
    const scores = [];
    for (let other = 0; other < rows.names.length; other++) {
      if (other === row || !norms[other]) continue;
      let dot = 0;
      for (let k = 0; k < K; k++) if (own[k]) dot += own[k] * share(other, k);
      if (dot > 0) scores.push([Math.min(1, dot / (norms[row] * norms[other])), other]);
    }
    return scores.sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, NEAREST);
  }

  function showRow(row) {
    const name = rows.names[row], result = byId("row-result");
    const used = factors.map((_, k) => [share(row, k), k]).filter(([s]) => s > 0).sort((a, b) => b[0] - a[0]);
    const title = element("h3", { className: "name", textContent: name, tabIndex: -1 });
    input.value = name;
    byId("search-count").textContent = `Showing ${name}, below.`; // read out: it is a status
    result.replaceChildren(title);
    const count = used.length === 1 ? "1 factor" : `${used.length} factors`;
    result.append(element("p", { textContent: used.length
      ? `Made of ${count}; its reconstruction sums to ${number(rows.totals[row])}.`
      : "It uses no factor: the background alone explains it." }));
    if (!used.length) return;
    const host = element("div", { className: "plot" });
    const lines = used.map(([s, k]) => [
      factors[k].label, factors[k].image ? picture(factors[k]) : short[k], percent(s)]);
    const heads = ["Factor", "Made of", "Share of the row"];
    const near = nearest(row);
    const left = element("div", { className: "card" }, host, tableOf("Its factors", heads, lines));
    const right = element("div", { className: "card" }, near.length
      ? tableOf("Nearest rows, by the proportions of their factors", ["Row", "Likeness"],
          near.map(([score, other]) => [rowLink(rows.names[other]), score.toFixed(2)]))
      : element("p", { textContent: "No other row shares a factor with it." }));
    result.append(element("div", { className: "pair" }, left, right));
    const bars = used.map(([s, k]) => ({ factor: factors[k].label, name: short[k], share: s }));
    draw(host, { ...templates.row, height: heightOf(bars) }, bars)
      .catch((error) => console.error(error));
  }

  // ---------------------------------------------------------------- factors

  function picture(factor) {
    const names = factor.columns.slice(0, 3).map((column) => column[0]).join(", ");
    return element("img", { className: "picture", src: factor.image,
      alt: `${factor.label} as an image, strongest at ${names}` });
  }

  function factorCard(factor) {
    const card = element("article", { className: "card factor" });
    card.append(
      element("h3", {}, element("span", { textContent: factor.label }), element("span", { textContent: percent(factor.share) })),
      element("p", { className: "facts", textContent:
        `${factor.rowsUsing.toLocaleString("en")} of ${found.shape[0].toLocaleString("en")} rows and ` +
        `${factor.columnsUsing.toLocaleString("en")} of ${found.shape[1].toLocaleString("en")} columns; ` +
        `found again in ${factor.found < 0.5 ? "only " : ""}${percent(factor.found)} of the draws` }));
    if (factor.image) {
      card.append(picture(factor));
    } else {
      const host = element("div", { className: "plot" });
      card.append(host);
      const top = factor.columns.slice(0, BARS).map(([name, weight, probability]) => ({ name, weight, probability }));
      const spec = { ...templates.columns, height: heightOf(top),
        description: `${factor.label}: ` + templates.columns.description };
      drawLater(host, spec, () => top);
    }
    const strongest = element("p", { className: "strongest" }, "Strongest rows: ");
    factor.rows.forEach((name, i) => strongest.append(rowLink(name), i < factor.rows.length - 1 ? ", " : ""));
    card.append(strongest, asTable(`Its top ${factor.columns.length} columns`, () => tableOf(
      `${factor.label}: top columns`, ["Column", "Weight", "Probability"],
      factor.columns.map(([name, weight, p]) => [name, percent(weight), percent(p)]))));
    return card;
  }

  const list = byId("factor-list"), more = byId("more-factors");
  list.append(...factors.slice(0, FIRST_FACTORS).map(factorCard));
  if (K === 0) list.append(element("p", { textContent: "No factor was found: the background alone explains the data." }));
  if (K > FIRST_FACTORS) {
    more.hidden = false;
    more.textContent = K === FIRST_FACTORS + 1 ? "Show the other factor" : `Show the other ${K - FIRST_FACTORS} factors`;
    more.addEventListener("click", () => {
      const cards = factors.slice(FIRST_FACTORS).map(factorCard);
      list.append(...cards);
      more.hidden = true;
      cards[0].tabIndex = -1;
      cards[0].focus();
    });
  }

  // ---------------------------------------------------------------- search: an ARIA combobox

  const input = byId("row-search"), options = byId("row-options"), count = byId("search-count");
  let matches = [], active = -1;
  if (rows.names.length < rows.of) {
    byId("search-help").textContent += ` The search knows ${rows.names.length.toLocaleString("en")} of ` +
      `${rows.of.toLocaleString("en")} rows, evenly spread.`;
  }

  function close() {
    options.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function find(text) {
    const wanted = text.trim().toLowerCase(), first = [], others = [];
    lower.forEach((name, i) => {
      const at = name.indexOf(wanted);
      if (at === 0) first.push(i); else if (at > 0) others.push(i);
    });
    return first.concat(others);
  }

  function open() {
    const all = find(input.value);
    matches = all.slice(0, OPTIONS);
    options.replaceChildren(...matches.map((row, i) => {
      const option = element("li", { id: "row-option-" + i, className: "name", textContent: rows.names[row] });
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.addEventListener("mousedown", (event) => { event.preventDefault(); pick(i); });
      return option;
    }));
    options.hidden = matches.length === 0;
    active = -1;
    input.setAttribute("aria-expanded", String(matches.length > 0));
    input.removeAttribute("aria-activedescendant");
    count.textContent = all.length === 0 ? "No row matches." :
      `${all.length.toLocaleString("en")} ${all.length === 1 ? "row matches" : "rows match"}` +
      (all.length > OPTIONS ? `, the first ${OPTIONS} are listed.` : ".");
  }

  function move(to) {
    if (options.hidden) open();
    if (!matches.length) return;
    active = (to + matches.length) % matches.length;
    [...options.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === active)));
    options.children[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", "row-option-" + active);
  }

  function pick(i) {
    const row = matches[i];
    close();
    showRow(row);
  }

  const keys = {
    ArrowDown: () => move(options.hidden ? 0 : active + 1),
    ArrowUp: () => move(options.hidden || active < 0 ? -1 : active - 1),
    Enter: () => { if (options.hidden) open(); if (matches.length) pick(Math.max(active, 0)); },
    Escape: () => { if (options.hidden) input.value = ""; close(); },
  };
  input.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  input.addEventListener("input", open);
  input.addEventListener("blur", close);
})();
