// Curves of a training: asks for what was added to its train.jsonl, and draws it as SVG.

import { el, figure, percent, plot, short } from "./draw.js";

const EVERY_MS = 2000;
const steps = new Map(); // the last line of a step counts: what went on from a checkpoint made it again
let tests = [], next = 0, file = 0, newest = 0;

const charts = [
  { id: "loss", title: "Loss", of: (p) => p.loss, test: (t) => t.test_loss, say: short },
  { id: "accuracy", title: "Accuracy", of: (p) => p.accuracy, test: (t) => t.test_accuracy, say: percent },
  { id: "speed", title: "Samples per second", of: (p) => p.samples_per_second, say: short, zero: true },
  { id: "stall", title: "Stall: time spent waiting for samples", of: (p) => p.stall, say: percent, zero: true },
];

function draw(chart, box, all) {
  const good = (points) => points.filter((p) => Number.isFinite(p[1]));
  const train = good(all.map((p) => [p.step, chart.of(p)]));
  const judged = chart.test ? good(tests.map((t) => [t.step, chart.test(t)])) : [];
  const last = (list, of) => list.map(of).findLast((x) => x !== undefined);
  const newest = last(all, chart.of), test = chart.test && last(tests, chart.test);
  const words = newest === undefined ? "no figure yet" : figure(newest, chart.say) + (test === undefined ? "" : `, test ${figure(test, chart.say)}`);
  const lines = [{ points: train, kind: "curve" }, { points: judged.filter((p) => p[0] >= train[0]?.[0]), kind: "curve second" }];
  const drawing = plot(lines, { label: `${chart.title}: ${words}`, say: chart.say, zero: chart.zero });
  box.replaceChildren(el("figcaption", {}, `${chart.title} `, el("span", {}, words)), ...(drawing ? [drawing] : []));
}

function drawInput(all) {
  const now = all.at(-1), before = all.at(-2);
  document.querySelector("#input").closest("section").hidden = !Number.isFinite(now.stall); // another's loader fed it
  const since = (key) => Math.max(0, (now[key] ?? 0) - (before && before[key] <= now[key] ? before[key] : 0));
  const packs = since("from_packs"), mount = since("from_mount");
  const rows = [["Stall", percent(now.stall)], ["Reading", `${since("read_seconds").toFixed(2)} s`], ["Decoding", `${since("decode_seconds").toFixed(2)} s`],
    ["Straight from packs", String(packs)], ["Through the mount", String(mount)]];
  document.querySelector("#input").replaceChildren(...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function show() {
  const all = [...steps.values()].sort((p, q) => p.step - q.step), now = all.at(-1);
  document.querySelector("#training").hidden = !now;
  if (!now) return;
  document.querySelector("#place").textContent = `Pass ${now.pass + 1}, batch ${now.batch}, step ${now.step}, at ${new Date(1000 * now.time).toLocaleTimeString()}`;
  for (const chart of charts) draw(chart, document.querySelector(`#${chart.id}`), all);
  drawInput(all);
}

function forget(which) {
  for (const s of [...steps.keys()].filter(which)) steps.delete(s);
  tests = tests.filter((t) => !which(t.step));
}

function take(text) {
  for (const line of text.split("\n")) {
    let p;
    try { p = JSON.parse(line); } catch { continue; } // a line that was cut off by a full disk
    if (Number.isFinite(p.step) && "loss" in p) {
      if (p.step <= newest) forget((s) => s >= p.step); // it was made again
      steps.set(p.step, p);
      newest = p.step;
    } else if (Number.isFinite(p.step)) {
      tests.push(p);
    }
  }
}

async function ask() {
  try {
    let more = true;
    while (more) {
      const answer = await fetch(`points?from=${next}&file=${file}`);
      if (!answer.ok) throw new Error(await answer.text());
      if (Number(answer.headers.get("X-From")) !== next) forget(() => true); // another file
      const text = await answer.text();
      next = Number(answer.headers.get("X-Next"));
      file = answer.headers.get("X-File");
      take(text);
      more = text.length > 0;
    }
    show();
  } catch (why) {
    document.querySelector("#place").textContent = `No answer: ${why.message}`;
  }
  setTimeout(ask, EVERY_MS);
}

document.querySelector("#charts").append(...charts.map((c) => el("figure", { id: c.id }, el("figcaption", {}, c.title))));
ask();
