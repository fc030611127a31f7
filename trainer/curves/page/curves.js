// Curves of a training: asks for what was added to its train.jsonl, and draws it as SVG.

const EVERY_MS = 2000, MOST = 800, WIDTH = 600, HEIGHT = 180, LEFT = 52;
const steps = new Map(); // the last line of a step counts: what went on from a checkpoint made it again
let tests = [], next = 0, newest = 0;

const percent = (x) => `${(100 * x).toFixed(1)} %`;
const short = (x) => (Math.abs(x) >= 1000 || x === 0 ? x.toFixed(0) : x.toPrecision(3));
const charts = [
  { id: "loss", title: "Loss", of: (p) => p.loss, test: (t) => t.test_loss, say: short },
  { id: "accuracy", title: "Accuracy", of: (p) => p.accuracy, test: (t) => t.test_accuracy, say: percent },
  { id: "speed", title: "Samples per second", of: (p) => p.samples_per_second, say: short, zero: true },
  { id: "stall", title: "Stall: time spent waiting for samples", of: (p) => p.stall, say: percent, zero: true },
];

function make(space, name, attributes, ...children) {
  const node = space ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const el = (name, attributes, ...children) => make(false, name, attributes, ...children);
const svg = (name, attributes, ...children) => make(true, name, attributes, ...children);

// At most MOST points: of each stretch the mean, so that a long run stays light to draw.
function thin(points) {
  const each = Math.ceil(points.length / MOST);
  if (each <= 1) return points;
  const out = [];
  for (let i = 0; i < points.length; i += each) {
    const part = points.slice(i, i + each);
    out.push([part.at(-1)[0], part.reduce((sum, p) => sum + p[1], 0) / part.length]);
  }
  return out;
}

function range(lines, zero) {
  const values = lines.flatMap((points) => points.map((p) => p[1]));
  let low = zero ? 0 : Math.min(...values), high = Math.max(...values);
  if (high === low) high = low + (Math.abs(low) || 1);
  return [low, high];
}

function draw(chart, box, all) {
  const good = (points) => points.filter((p) => Number.isFinite(p[1]));
  const train = good(all.map((p) => [p.step, chart.of(p)]));
  const judged = chart.test ? good(tests.map((t) => [t.step, chart.test(t)])) : [];
  const newest = train.at(-1)?.[1], test = judged.at(-1)?.[1];
  const words = newest === undefined ? "no figure yet" : chart.say(newest) + (test === undefined ? "" : `, test ${chart.say(test)}`);
  const caption = el("figcaption", {}, `${chart.title} `, el("span", {}, words));
  const parts = [caption];
  if (train.length > 1) {
    const [low, high] = range([train, judged], chart.zero), first = train[0][0], last = train.at(-1)[0];
    const x = (s) => LEFT + (WIDTH - LEFT) * (s - first) / (last - first || 1);
    const y = (v) => 8 + (HEIGHT - 30) * (1 - (v - low) / (high - low));
    const line = (points, kind) => svg("polyline", { class: kind, points: thin(points).map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ") });
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${chart.title}: ${words}` });
    for (const v of [low, (low + high) / 2, high])
      drawing.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(v), y2: y(v) }), svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, chart.say(v)));
    drawing.append(svg("text", { x: LEFT, y: HEIGHT - 4 }, `step ${first}`), svg("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, `step ${last}`));
    drawing.append(line(train, "curve"), line(judged.filter((p) => p[0] >= first), "curve second"));
    parts.push(drawing);
  }
  box.replaceChildren(...parts);
}

function drawInput(all) {
  const now = all.at(-1), before = all.at(-2);
  const since = (key) => Math.max(0, (now[key] ?? 0) - (before && before[key] <= now[key] ? before[key] : 0));
  const packs = since("from_packs"), mount = since("from_mount");
  const rows = [["Stall", percent(now.stall)], ["Reading", `${since("read_seconds").toFixed(2)} s`], ["Decoding", `${since("decode_seconds").toFixed(2)} s`],
    ["Straight from packs", String(packs)], ["Through the mount", String(mount)]];
  document.querySelector("#input").replaceChildren(...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function show() {
  const all = [...steps.values()].sort((p, q) => p.step - q.step), now = all.at(-1);
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
      const answer = await fetch(`points?from=${next}`);
      if (!answer.ok) throw new Error(await answer.text());
      if (Number(answer.headers.get("X-From")) !== next) forget(() => true); // another file
      const text = await answer.text();
      next = Number(answer.headers.get("X-Next"));
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
