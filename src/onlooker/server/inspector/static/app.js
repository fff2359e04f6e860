// The behaviour of the pages: theme, chart, highlights, keyboard, and live updates.
"use strict";

const page = document.documentElement;
const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

// ---------------------------------------------------------------------------- theme

function isDark() {
  const chosen = page.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

find("#theme")?.addEventListener("click", () => {
  page.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("onlooker-theme", page.dataset.theme);
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

// On a narrow screen the bar scrolls: bring the current page into view.
const present = find(".bar nav [aria-current]");
if (present) present.parentElement.scrollLeft = present.offsetLeft - present.parentElement.clientWidth / 2;

// ---------------------------------------------------------------------------- the chart

const box = find("#chart");
let figures = null;
let plot = null;

const colour = (name) => {
  const probe = document.createElement("i");
  probe.className = name;
  probe.style.color = name === "line" || name === "muted" ? `var(--${name})` : "var(--kind)";
  box.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

// The distance between two ticks of the message axis.
const STEPS = [...Array(9).keys()].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));

const short = (number) => (number >= 1e6 ? `${+(number / 1e6).toFixed(1)}M` : number >= 1e3 ? `${+(number / 1e3).toFixed(1)}k` : `${number}`);

function nearest(seq) {
  let best = null;
  for (const mark of figures.marks) {
    if (best === null || Math.abs(mark.seq - seq) < Math.abs(best.seq - seq)) best = mark;
  }
  const reach = (figures.seq.at(-1) - figures.seq[0]) / 60;
  return best && Math.abs(best.seq - seq) <= Math.max(1, reach) ? best : null;
}

function about(index) {
  const words = find("#chart-about");
  if (index === null || index === undefined) return;
  const seq = figures.seq[index];
  const mark = nearest(seq);
  const day = (figures.at[index] || "").slice(0, 16).replace("T", " ");
  words.textContent =
    `message ${seq.toLocaleString("en")}${day ? `, ${day}` : ""}: raw ${figures.raw[index].toLocaleString("en")}, ` +
    `context ${figures.context[index].toLocaleString("en")}${mark ? ` · ${mark.about}` : ""}`;
}

function drawMarks(chart) {
  const { ctx, bbox } = chart;
  const colours = { observation: colour("observation"), reflection: colour("reflection") };
  const dot = devicePixelRatio;
  ctx.save();
  const isShown = Boolean(figures.budget) && figures.budget <= chart.scales.y.max;
  find("#chart-budget").hidden = !isShown;
  if (isShown) {
    const y = Math.round(chart.valToPos(figures.budget, "y", true)) + 0.5;
    ctx.strokeStyle = colour("muted");
    ctx.setLineDash([4 * dot, 4 * dot]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  let last = -Infinity;
  for (const mark of figures.marks) {
    const x = Math.round(chart.valToPos(mark.seq, "x", true));
    const condensed = mark.kind === "reflection";
    // Where notes are too close to tell apart, only some of their ticks are drawn.
    if (!condensed && x - last < 5 * dot) continue;
    last = condensed ? last : x;
    ctx.fillStyle = colours[mark.kind];
    if (condensed) {
      ctx.globalAlpha = 0.22;
      ctx.fillRect(x, bbox.top, dot, bbox.height);
      ctx.globalAlpha = 1;
    }
    ctx.fillRect(x - dot, bbox.top, 2 * dot, (condensed ? 12 : 7) * dot);
  }
  ctx.restore();
}

function draw() {
  if (!box || !figures || !figures.seq.length) return;
  plot?.destroy();
  const font = "12px system-ui, sans-serif";
  // After months the context is a thousandth of all messages, and would be invisible on a linear scale.
  const steep = figures.raw.at(-1) > 25 * Math.max(...figures.context);
  find("#chart-scale").hidden = !steep;
  const shown = (values) => (steep ? values.map((value) => Math.max(100, value)) : values);
  const tens = (_, ticks) => (steep ? ticks.map((t) => (Number.isInteger(Math.log10(t)) ? t : null)) : ticks);
  const axis = { stroke: colour("muted"), font, grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  plot = new uPlot(
    {
      width: box.clientWidth,
      height: box.clientHeight,
      legend: { show: false },
      scales: { x: { time: false }, y: steep ? { distr: 3, range: (_, low, high) => [100, 1.6 * high] } : {} },
      cursor: { y: false, drag: { x: false, y: false } },
      axes: [
        { ...axis, size: 30, space: 70, incrs: STEPS, grid: { show: false }, values: (_, ticks) => ticks.map((t) => t.toLocaleString("en")) },
        { ...axis, size: 46, filter: tens, grid: { ...axis.grid, filter: tens }, ticks: { ...axis.ticks, filter: tens }, values: (_, ticks) => ticks.map((t) => (t === null ? "" : short(t))) },
      ],
      series: [
        {},
        { stroke: colour("raw"), width: 2, points: { show: false } },
        { stroke: colour("held"), width: 2, fill: colour("held").replace(")", " / 0.14)"), points: { show: false } },
      ],
      hooks: { draw: [drawMarks], setCursor: [(chart) => about(chart.cursor.idx)] },
    },
    [figures.seq, shown(figures.raw), shown(figures.context)],
    box,
  );
}

function go() {
  const index = plot?.cursor.idx;
  if (index === null || index === undefined) return;
  const mark = nearest(figures.seq[index]);
  const address = new URL(box.dataset.page, location.href);
  address.searchParams.set("seq", figures.seq[index]);
  if (mark) address.searchParams.set("note", mark.note);
  address.hash = `m${figures.seq[index]}`;
  location.assign(address);
}

async function load() {
  if (!box) return;
  const answer = await fetch(box.dataset.src);
  if (!answer.ok) return;
  figures = await answer.json();
  draw();
  box.dataset.drawn = figures.seq.length;
}

if (box) {
  load();
  box.addEventListener("click", go);
  new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
}

// ---------------------------------------------------------------------------- notes and their messages

let lit = "";

function lightUp() {
  if (lit) for (const message of findAll(".message")) message.classList.toggle("lit", message.dataset.note === lit);
}

document.addEventListener("click", (event) => {
  const light = event.target.closest("[data-light]");
  if (light) {
    lit = light.dataset.light;
    lightUp();
  }
  const chosen = event.target.closest("[data-choose]");
  if (chosen) {
    for (const leaf of findAll("[data-choose]")) {
      if (leaf === chosen) leaf.setAttribute("aria-current", "true");
      else leaf.removeAttribute("aria-current");
    }
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) copyFrom(copy.dataset.copy, find("[role=status]", copy.closest("header")));
});

async function copyFrom(address, words) {
  const text = await (await fetch(address)).text();
  try {
    await navigator.clipboard.writeText(text);
    words.textContent = `Copied ${text.length.toLocaleString("en")} characters.`;
  } catch {
    words.textContent = "The browser does not allow copying here.";
  }
}

// A line of a note highlights its words in the source.
for (const [name, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]]) {
  document.addEventListener(name, (event) => {
    const line = event.target.closest?.(".line[data-line]");
    if (line) for (const mark of findAll(`mark[data-line="${line.dataset.line}"]`)) mark.classList.toggle("lit", on);
  });
}

document.addEventListener("input", (event) => {
  const output = event.target.dataset?.output;
  if (output) find(`#${output}`).textContent = Number(event.target.value).toLocaleString("en");
});

// ---------------------------------------------------------------------------- keyboard

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    find("[data-search]")?.focus();
    event.preventDefault();
  } else if (event.key === "j" || event.key === "k") {
    const all = findAll("[data-item]");
    const present = all.indexOf(document.activeElement);
    const next = present < 0 && event.key === "k" ? all.length : present + (event.key === "j" ? 1 : -1);
    all[Math.max(0, Math.min(all.length - 1, next))]?.focus();
  }
});

// ---------------------------------------------------------------------------- live updates

// The conversation shows its end and follows new messages, unless the reader has scrolled up.
const talk = () => find("#conversation");
const isAtEnd = (window) => window.scrollHeight - window.scrollTop - window.clientHeight < 60;
const toEnd = () => talk()?.scrollTo({ top: talk().scrollHeight });
let isBehind = false;

function follow() {
  if (!talk()?.hasAttribute("hx-get")) return;
  isBehind = !isAtEnd(talk());
  if (!isBehind) document.body.dispatchEvent(new CustomEvent("talk"));
}

if (talk()?.hasAttribute("hx-get")) {
  if (!location.hash) toEnd();
  document.addEventListener("htmx:after:settle", (event) => {
    if (event.target.id !== "conversation") return;
    lightUp();
    toEnd();
  });
  document.addEventListener("scroll", (event) => isBehind && event.target === talk() && follow(), true);
}

const listening = find("[data-live]");
if (listening && window.EventSource) {
  const asked = new URLSearchParams();
  if (listening.dataset.live) asked.set("session", listening.dataset.live);
  if (listening.dataset.owner) asked.set("owner", listening.dataset.owner);
  const stream = new EventSource(`/inspect/events?${asked}`);
  let waiting = null;
  const tell = () => {
    waiting = null;
    document.body.dispatchEvent(new CustomEvent("live"));
    follow();
    load();
  };
  const hear = (event) => {
    // An agent that builds a context changes nothing on the page.
    if (event.data && JSON.parse(event.data).type === "ContextBuilt") return;
    waiting ??= setTimeout(tell, 700);
  };
  stream.onmessage = hear;
  stream.addEventListener("missed", hear);
  addEventListener("pagehide", () => stream.close());
}
