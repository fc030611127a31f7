// What the parts of the page draw with: elements of HTML and of SVG, and numbers as people read them.

export const percent = (x) => `${(100 * x).toFixed(1)} %`;
export const milliseconds = (micros) => `${(micros / 1000).toPrecision(3)} ms`;
export const megabytes = (bytes) => `${(bytes / 1e6).toPrecision(3)} MB`;
export const short = (x) => (x === 0 || (Math.abs(x) >= 1000 && Math.abs(x) < 1e9) ? x.toFixed(0) : x.toPrecision(3));
// JSON has null for what is infinite or not a number: a training that has diverged.
export const figure = (x, say = short) => (x === null ? "not finite" : say(x));

function make(space, name, attributes, ...children) {
  const node = space ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
export const el = (name, attributes, ...children) => make(false, name, attributes, ...children);
export const svg = (name, attributes, ...children) => make(true, name, attributes, ...children);

// AROUND: what the page and a figure's border leave free at both sides.
const MOST = 800, WIDEST = 600, HEIGHT = 180, LEFT = 52, AROUND = 108;

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

// Lines over steps: {points: [[STEP, VALUE]…], kind: class}. null: there is no line to draw yet.
export function plot(lines, { label, say = short, zero = false }) {
  const steps = lines.flatMap((l) => l.points.map((p) => p[0])), values = lines.flatMap((l) => l.points.map((p) => p[1]));
  if (!lines.some((l) => l.points.length > 1)) return null;
  const least = (x) => x.reduce((a, b) => Math.min(a, b)), most = (x) => x.reduce((a, b) => Math.max(a, b));
  const first = least(steps), last = most(steps), low = zero ? Math.min(0, least(values)) : least(values);
  const high = most(values) === low ? low + (Math.abs(low) || 1) : most(values);
  const width = Math.min(WIDEST, innerWidth - AROUND); // a drawing that is shrunk to a phone's has tiny text
  const x = (s) => LEFT + (width - LEFT) * (s - first) / (last - first || 1);
  const y = (v) => 8 + (HEIGHT - 30) * (1 - (v - low) / (high - low));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const v of [low, (low + high) / 2, high])
    drawing.append(svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(v), y2: y(v) }), svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, say(v)));
  drawing.append(svg("text", { x: LEFT, y: HEIGHT - 4 }, `step ${first}`), svg("text", { x: width, y: HEIGHT - 4, "text-anchor": "end" }, `step ${last}`));
  for (const l of lines)
    drawing.append(svg("polyline", { class: l.kind, points: thin(l.points).map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ") }));
  return drawing;
}
