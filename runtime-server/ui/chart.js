// Reads by source over time: stacked areas, drawn as SVG by hand.

import { rate, sources } from "./words.js";
import { el } from "./cards.js";

const svgSpace = "http://www.w3.org/2000/svg";
const left = 48, bottom = 24, top = 8, right = 4;

function svg(name, attributes, text) {
  const node = document.createElementNS(svgSpace, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// The next of 1, 2, 5, 10 … that is not below n.
function niceTop(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * power).find((x) => x >= n);
}

function axis(n) {
  if (n >= 1e6) return `${n / 1e6} M`;
  return n >= 1e4 ? `${n / 1e3} k` : String(n);
}

export class Chart {
  // `spoken` is told what the cursor stands on.
  constructor(box, spoken, spanSeconds) {
    this.box = box;
    this.spoken = spoken;
    this.span = spanSeconds * 1000;
    this.points = [];
    this.at = -1;
    this.cursorTime = 0;
    box.addEventListener("pointermove", (e) => this.point(e.clientX));
    box.addEventListener("pointerleave", () => this.choose(-1, false));
    box.addEventListener("blur", () => this.choose(-1, false));
    box.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  // values: {mem, disk, peer, store}, reads per second until `time`.
  add(time, values) {
    this.points.push({ time, values });
    while (this.points.length > 2 && this.points[1].time < time - this.span) this.points.shift();
    if (this.at >= 0) this.at = Math.max(0, this.points.findIndex((p) => p.time >= this.cursorTime));
    this.draw();
  }

  clear() {
    this.points = [];
    this.at = -1;
    this.draw();
  }

  x(time) {
    const now = this.points.at(-1).time;
    return left + (this.width - left - right) * Math.max(0, 1 - (now - time) / this.span);
  }

  y(value) {
    return top + (this.height - top - bottom) * (1 - value / this.max);
  }

  draw() {
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    if (!this.width) return;
    const total = (p) => sources.reduce((sum, s) => sum + p.values[s.key], 0);
    const most = Math.max(0, ...this.points.map(total));
    this.max = niceTop(Math.max(most, 10));
    const drawing = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, "aria-hidden": "true" });
    this.drawAxes(drawing);
    if (this.points.length > 1) this.drawAreas(drawing);
    const parts = [drawing];
    if (this.at >= 0 && this.points[this.at]) parts.push(this.drawCursor(drawing));
    else if (most === 0) parts.push(el("p", { class: "quietly" }, this.points.length ? "No reads reach the cache right now." : "Waiting for the first figures."));
    this.box.replaceChildren(...parts);
  }

  drawAxes(drawing) {
    for (let i = 0; i <= 4; i += 2) {
      const value = this.max * i / 4, y = Math.round(this.y(value)) + .5;
      drawing.append(svg("line", { class: "grid", x1: left, x2: this.width - right, y1: y, y2: y }));
      drawing.append(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, axis(value)));
    }
    const minutes = this.span / 60000;
    for (let m = minutes; m >= 0; m -= 1) {
      if (m !== minutes && m !== 0 && this.width < 560) continue;
      const x = left + (this.width - left - right) * (1 - m / minutes);
      const anchor = m === 0 ? "end" : m === minutes ? "start" : "middle";
      drawing.append(svg("text", { x, y: this.height - 6, "text-anchor": anchor }, m === 0 ? "now" : `${m} min ago`));
    }
  }

  drawAreas(drawing) {
    const base = this.points.map(() => 0);
    for (const { key } of sources) {
      const below = this.points.map((p, i) => `${this.x(p.time).toFixed(1)},${this.y(base[i]).toFixed(1)}`);
      this.points.forEach((p, i) => { base[i] += p.values[key]; });
      if (this.points.every((p) => p.values[key] === 0)) continue;
      const above = this.points.map((p, i) => `${this.x(p.time).toFixed(1)},${this.y(base[i]).toFixed(1)}`);
      drawing.append(svg("polygon", { class: `area-${key}`, points: [...above, ...below.reverse()].join(" ") }));
    }
  }

  drawCursor(drawing) {
    const p = this.points[this.at], x = Math.round(this.x(p.time)) + .5;
    drawing.append(svg("line", { class: "cursor", x1: x, x2: x, y1: top, y2: this.height - bottom }));
    const rows = sources.flatMap((s) => [el("dt", {}, s.name), el("dd", {}, `${rate(p.values[s.key])}/s`)]);
    const tip = el("div", { class: "tip", "aria-hidden": "true" }, el("strong", {}, this.when(p)), el("dl", {}, ...rows));
    if (x > this.width / 2) tip.style.right = `${this.width - x + 10}px`;
    else tip.style.left = `${x + 10}px`;
    return tip;
  }

  when(p) {
    const s = Math.round((this.points.at(-1).time - p.time) / 1000);
    return s === 0 ? "Now" : `${s} s ago`;
  }

  point(clientX) {
    if (this.points.length < 2) return;
    const x = clientX - this.box.getBoundingClientRect().left;
    let best = 0;
    this.points.forEach((p, i) => {
      if (Math.abs(this.x(p.time) - x) < Math.abs(this.x(this.points[best].time) - x)) best = i;
    });
    this.choose(best, false);
  }

  key(e) {
    const last = this.points.length - 1;
    const to = { ArrowLeft: this.at < 0 ? last : this.at - 1, ArrowRight: this.at < 0 ? last : this.at + 1, Home: 0, End: last, Escape: -1 }[e.key];
    if (to === undefined || last < 0) return;
    e.preventDefault();
    this.choose(to < 0 ? (e.key === "Escape" ? -1 : 0) : Math.min(to, last), true);
  }

  choose(at, speak) {
    if (at === this.at && !speak) return;
    this.at = at;
    this.cursorTime = this.points[at]?.time ?? 0;
    const p = this.points[at];
    if (speak && p) this.spoken.textContent = `${this.when(p)}: ${sources.map((s) => `${s.name} ${rate(p.values[s.key])}`).join(", ")} reads per second`;
    this.draw();
  }
}
