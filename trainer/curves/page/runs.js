// What stands in files of events, of any program: asked for when a part of it is opened, and again when there is more.

import { el, figure, megabytes, milliseconds, plot, short, svg } from "./draw.js";

const EVERY_MS = 5000, COLOURS = 8, MOST_NODES = 3000;
const $ = (selector) => document.querySelector(selector);
const chosen = new Map(); // run -> shown? a new one is
let runs = [], shown = "";

async function ask(path, of = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(of)}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const selected = () => runs.filter((r) => chosen.get(r.run));
const colour = (run) => `run-${runs.findIndex((r) => r.run === run) % COLOURS}`;
const tags = (kind) => [...new Set(selected().flatMap((r) => r[kind]))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
const having = (kind, tag) => selected().filter((r) => r[kind].includes(tag)).map((r) => r.run);
const title = (run) => (run === "." ? "this folder" : run);

// --- scalars ---

// Points of several files that grow at once come file by file.
const asLogged = (points) => points.toSorted((a, b) => a[1] - b[1]);

async function drawScalars(box) {
  const of = new Map(await Promise.all(selected().map(async (r) => [r.run, await ask("scalars", { run: r.run })])));
  box.replaceChildren(...tags("scalars").map((tag) => {
    const all = having("scalars", tag).map((run) => ({ run, points: asLogged(of.get(run)[tag] ?? []) })).filter((l) => l.points.length);
    const lines = all.map((l) => ({ points: l.points.filter((p) => p[2] !== null).map((p) => [p[0], p[2]]), kind: `line ${colour(l.run)}` }));
    const words = all.map((l) => el("span", { class: `key ${colour(l.run)}`, title: title(l.run) }, figure(l.points.at(-1)[2])));
    return el("figure", { "data-tag": tag }, el("figcaption", {}, `${tag} `, ...words), ...[plot(lines, { label: tag })].filter(Boolean));
  }));
}

// --- histograms: one below the other, the newest in front ---

function ridges(all, kind) {
  const W = 600, ROW = 14, TOP = 70, height = TOP + ROW * all.length + 20;
  const low = Math.min(...all.map((h) => h.edges[0])), high = Math.max(...all.map((h) => h.edges.at(-1)));
  const x = (v) => 40 + (W - 60) * (v - low) / (high - low || 1);
  const drawing = svg("svg", { viewBox: `0 0 ${W} ${height}`, role: "img", "aria-label": `${all.length} histograms, from ${short(low)} to ${short(high)}` });
  all.forEach((h, i) => {
    // How many in a width, so that bars of different widths compare.
    const dense = h.counts.map((c, k) => c / ((h.edges[k + 1] - h.edges[k]) || 1)), top = Math.max(...dense) || 1, base = TOP + ROW * i;
    const points = [`${x(h.edges[0]).toFixed(1)},${base}`];
    dense.forEach((d, k) => {
      const y = (base - (TOP - 10) * d / top).toFixed(1);
      points.push(`${x(h.edges[k]).toFixed(1)},${y}`, `${x(h.edges[k + 1]).toFixed(1)},${y}`);
    });
    points.push(`${x(h.edges.at(-1)).toFixed(1)},${base}`);
    drawing.append(svg("polygon", { class: `ridge ${kind}`, points: points.join(" ") }, svg("title", {}, `step ${h.step}`)));
    if (i === 0 || i === all.length - 1) drawing.append(svg("text", { x: 34, y: base, "text-anchor": "end" }, String(h.step)));
  });
  drawing.append(svg("text", { x: 40, y: height - 4 }, short(low)), svg("text", { x: W - 20, y: height - 4, "text-anchor": "end" }, short(high)));
  return drawing;
}

// --- lists whose parts are asked for one by one, when somebody opens them ---

function drawEach(kind, box, draw) {
  const open = new Set([...box.querySelectorAll("details[open]")].map((d) => d.dataset.tag));
  box.replaceChildren(...tags(kind).map((tag) => {
    const inside = el("div", { class: "grid-of-figures" }), part = el("details", { "data-tag": tag }, el("summary", {}, tag), inside);
    const fill = async () => inside.replaceChildren(...await Promise.all(having(kind, tag).map((run) => draw(run, tag))));
    part.addEventListener("toggle", () => part.open && fill().catch(complain));
    part.open = open.has(tag) || tags(kind).length === 1;
    return part;
  }));
}

async function histogram(run, tag) {
  const all = await ask("histograms", { run, tag });
  return el("figure", {}, el("figcaption", {}, el("span", { class: `key ${colour(run)}` }, title(run))), ...(all.length ? [ridges(all, colour(run))] : []));
}

// --- precision over recall: the newest, and those before it behind ---

function squares(all, kind) {
  const W = 300, LEFT = 34, BELOW = 22, x = (r) => LEFT + (W - LEFT - 8) * r, y = (p) => 8 + (W - BELOW - 8) * (1 - p);
  const drawing = svg("svg", { viewBox: `0 0 ${W} ${W}`, role: "img", "aria-label": `Precision over recall, step ${all.at(-1).step}` });
  for (const v of [0, 0.5, 1]) {
    drawing.append(svg("line", { class: "grid", x1: x(0), x2: x(1), y1: y(v), y2: y(v) }), svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, String(v)));
    drawing.append(svg("text", { x: x(v), y: W - 4, "text-anchor": v === 1 ? "end" : "middle" }, v === 1 ? "recall 1" : String(v)));
  }
  all.forEach((curve, i) => drawing.append(svg("polyline", { class: `line ${kind}${i < all.length - 1 ? " before" : ""}`,
    points: curve.recall.map((r, k) => `${x(r).toFixed(1)},${y(curve.precision[k]).toFixed(1)}`).join(" ") }, svg("title", {}, `step ${curve.step}`))));
  return drawing;
}

async function precision(run, tag) {
  const all = await ask("pr", { run, tag });
  return el("figure", {}, el("figcaption", {}, el("span", { class: `key ${colour(run)}` }, title(run)), all.length ? ` step ${all.at(-1).step}` : ""), ...(all.length ? [squares(all, colour(run))] : []));
}

// --- images and sounds, step by step ---

const looked = new Map(); // kind, run and tag -> the place of what somebody went back to

async function media(kind, one, made, run, tag) {
  const all = await ask(kind, { run, tag }), key = JSON.stringify([kind, run, tag]), last = all.length - 1, step = el("span", {});
  const before = all.findIndex((p) => p[2] === looked.get(key));
  const slider = el("input", { type: "range", min: 0, max: last, value: before < 0 ? last : before, "aria-label": `Step of ${tag}` });
  const show = () => {
    const [at, , place] = all[Number(slider.value)];
    made.src = `${one}?${new URLSearchParams({ run, tag, place })}`;
    step.textContent = `step ${at}`;
  };
  slider.addEventListener("input", () => {
    looked.set(key, Number(slider.value) < last && all[Number(slider.value)][2]); // the newest is the newest when there is more, too
    show();
  });
  show();
  return el("figure", {}, el("figcaption", {}, el("span", { class: `key ${colour(run)}` }, title(run)), " ", step), made, ...(all.length > 1 ? [slider] : []));
}

const image = (run, tag) => media("images", "image", el("img", { alt: tag }), run, tag);
const sound = (run, tag) => media("audio", "clip", el("audio", { controls: "", preload: "none", "aria-label": tag }), run, tag);

// --- graphs: each node below all that it takes from ---

// Of each node its time and bytes on all devices, in a step that was measured.
function costsOf({ costs }) {
  const of = new Map();
  for (const [name, , micros, bytes] of costs?.nodes ?? []) {
    const sum = of.get(name) ?? { micros: 0, bytes: 0 };
    of.set(name, { micros: sum.micros + micros, bytes: sum.bytes + bytes });
  }
  return of;
}

function deviceLines({ costs }) {
  return (costs?.devices ?? []).map((device, i) => {
    const own = costs.nodes.filter((n) => n[1] === i);
    return el("p", { class: "soft device" }, `${costs.tag}, ${device}: ${milliseconds(own.reduce((sum, n) => sum + n[2], 0))}, ${megabytes(own.reduce((sum, n) => sum + n[3], 0))}`);
  });
}

// The bar at a node's foot is its share of the time of the slowest.
function drawCost(cost, most) {
  return cost ? [svg("rect", { class: "heat", y: 50, height: 4, width: most ? (160 * cost.micros / most).toFixed(1) : 0 }),
    svg("text", { class: "cost", x: 8, y: 46 }, `${milliseconds(cost.micros)}, ${megabytes(cost.bytes)}`)] : [];
}

function drawGraph(graph) {
  const { nodes } = graph, costs = costsOf(graph), box = costs.size ? 54 : 40, W = 190, H = box + 24, makers = new Map();
  const most = [...costs.values()].reduce((m, c) => Math.max(m, c.micros), 0);
  nodes.forEach(([name, , , outputs], i) => (outputs ?? [name]).forEach((o) => makers.set(o, i)));
  const from = nodes.map(([, , inputs, outputs]) => [...new Set(inputs.map((n) => makers.get(outputs ? n : n.replace(/^\^/, "").replace(/:\d+$/, ""))).filter((k) => k !== undefined))]);
  const row = new Array(nodes.length).fill(0), waits = from.map((f) => f.length), takers = nodes.map(() => []);
  from.forEach((f, i) => f.forEach((k) => takers[k].push(i)));
  const ready = waits.flatMap((n, i) => (n ? [] : [i]));
  for (let at = 0; at < ready.length; at++)
    for (const i of takers[ready[at]]) {
      row[i] = Math.max(row[i], row[ready[at]] + 1);
      if (--waits[i] === 0) ready.push(i);
    }
  const inRow = [], place = nodes.map((_, i) => [(inRow[row[i]] = (inRow[row[i]] ?? 0) + 1) - 1, row[i]]);
  const width = W * Math.max(0, ...inRow.filter(Boolean)) + 20, height = H * inRow.length + 20;
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${nodes.length} nodes` });
  const x = (i) => 10 + W * place[i][0], y = (i) => 10 + H * place[i][1];
  from.forEach((f, i) => f.forEach((k) => drawing.append(svg("path", { class: "edge", d: `M${x(k) + 80},${y(k) + box}C${x(k) + 80},${y(k) + box + 20} ${x(i) + 80},${y(i) - 20} ${x(i) + 80},${y(i)}` }))));
  nodes.forEach(([name, op], i) => drawing.append(svg("g", { class: "node", transform: `translate(${x(i)},${y(i)})` },
    svg("title", {}, `${op} ${name}`), svg("rect", { width: 160, height: box, rx: 6 }), ...drawCost(costs.get(name), most),
    svg("text", { class: "op", x: 8, y: 16 }, op.slice(0, 22)), svg("text", { x: 8, y: 32 }, name.length > 24 ? `…${name.slice(-23)}` : name))));
  return drawing;
}

async function drawGraphs(box) {
  const all = await Promise.all(selected().filter((r) => r.graph).map(async (r) => [r.run, await ask("graph", { run: r.run })]));
  box.replaceChildren(...all.flatMap(([run, graph]) => [el("p", { class: `key ${colour(run)}` }, `${title(run)}: ${graph.nodes.length} nodes`), ...deviceLines(graph),
    graph.nodes.length > MOST_NODES ? el("p", { class: "soft" }, "Too many to draw.") : drawGraph(graph)]));
}

// --- the whole ---

const parts = {
  scalars: { n: () => tags("scalars").length, draw: drawScalars },
  histograms: { n: () => tags("histograms").length, draw: (box) => drawEach("histograms", box, histogram) },
  pr: { n: () => tags("pr").length, draw: (box) => drawEach("pr", box, precision) },
  images: { n: () => tags("images").length, draw: (box) => drawEach("images", box, image) },
  audio: { n: () => tags("audio").length, draw: (box) => drawEach("audio", box, sound) },
  graph: { n: () => selected().filter((r) => r.graph).length, draw: drawGraphs },
};

function complain(why) {
  $("#damaged").textContent = `No answer: ${why.message}`;
}

async function draw() {
  for (const [id, part] of Object.entries(parts)) {
    const n = part.n(), box = $(`#${id}`);
    box.hidden = n === 0;
    box.querySelector("summary").replaceChildren(`${box.querySelector("summary").firstChild.textContent.trim()} `, el("span", {}, String(n)));
    if (n && box.open) await part.draw(box.querySelector(":scope > div"));
  }
}

function drawChoices() {
  $("#chosen").hidden = runs.length < 2;
  $("#chosen").replaceChildren(...runs.map((r) => {
    const tick = el("input", { type: "checkbox" });
    tick.checked = chosen.get(r.run);
    tick.addEventListener("change", () => { chosen.set(r.run, tick.checked); draw().catch(complain); });
    return el("label", {}, tick, el("span", { class: `key ${colour(r.run)}` }, title(r.run)));
  }));
}

async function look() {
  try {
    ({ runs } = await ask("runs"));
    for (const r of runs) if (!chosen.has(r.run)) chosen.set(r.run, true);
    $("#runs").hidden = runs.length === 0;
    $("#damaged").textContent = runs.filter((r) => r.damaged).map((r) => `${title(r.run)}: ${r.damaged}`).join("; ");
    const now = JSON.stringify(runs);
    if (now !== shown) {
      drawChoices();
      await draw();
      shown = now;
    }
  } catch (why) {
    complain(why);
  }
  setTimeout(look, EVERY_MS);
}

for (const id of Object.keys(parts)) $(`#${id}`).addEventListener("toggle", () => $(`#${id}`).open && draw().catch(complain));
look();
