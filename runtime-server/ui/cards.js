// The cards of the page, each from the newest facts. Text goes in as text, never as markup.

import { ago, bytes, count, duration, percent, rate, sources } from "./words.js";

export const $ = (id) => document.getElementById(id);

// An element with attributes and children (elements or text; false and null are left out).
export function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  node.append(...children.filter((c) => c !== false && c !== null && c !== undefined));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Rows that stay the same elements, so that the keyboard's focus stays where it is.
export function keyed(list, items, keyOf, make, update) {
  const old = new Map([...list.children].map((node) => [node.dataset.key, node]));
  let place = list.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else list.insertBefore(node, place);
  }
  for (const node of old.values()) node.remove();
}

export function bar(label) {
  return el("div", { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, el("span", {}));
}

export function setBar(node, value, tone) {
  const shown = Math.max(0, Math.min(100, value));
  node.setAttribute("aria-valuenow", shown.toFixed(1));
  node.firstElementChild.style.width = `${shown}%`;
  if (tone) node.dataset.tone = tone;
  else delete node.dataset.tone;
}

export function setChip(node, tone, text) {
  node.dataset.tone = tone;
  setText(node, text);
}

// A number with its unit in small.
function figure(node, text) {
  const cut = text.match(/^([\d.,–]+)\s*(.*)$/);
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(cut?.[1] ?? text, ...(cut?.[2] ? [" ", el("small", {}, cut[2])] : []));
}

// What of the set is this node's: all of it, or its share.
export function shareOf(m) {
  return m.partition
    ? { samples: m.partition.samples, kept: m.partition.cached, bytes: m.partition.bytes, word: "of its share" }
    : { samples: m.set.samples, kept: m.cache.samples, bytes: m.set.bytes, word: "of the set" };
}

export function showOverview(m, rates) {
  const share = shareOf(m), r = m.reads;
  const local = r.mem + r.disk, all = local + r.peer + r.store;
  figure($("set-samples"), `${count(m.set.samples)} samples`);
  setText($("set-note"), `${bytes(m.set.bytes)} in ${count(m.set.folders)} folder${m.set.folders === 1 ? "" : "s"}`);
  figure($("kept-percent"), percent(share.kept, share.samples));
  setText($("kept-note"), `${count(share.kept)} of ${count(share.samples)} ${m.partition ? "in its share" : "samples"}, ${bytes(m.cache.bytes)}`);
  figure($("hit-ratio"), all ? percent(local, all) : "–");
  setText($("hit-note"), all ? `${count(local)} of ${count(all)} reads` : "No reads yet");
  figure($("read-rate"), rates ? `${rate(rates.total)} /s` : "–");
  setText($("read-note"), rates ? `${bytes(rates.bytes)}/s, half within ${micros(r.p50_us)}` : "Measuring");
}

function micros(us) {
  return us < 1000 ? `${Math.round(us)} µs` : `${(us / 1000).toFixed(1)} ms`;
}

// `job`: the warmup job that has not ended, or none; `speed`: samples per second or null.
export function showWarmup(m, job, speed) {
  const w = m.warmup, share = shareOf(m);
  const whole = share.kept >= share.samples && share.samples > 0;
  const state = job?.state ?? w.state;
  const words = {
    pending: ["idle", "Waiting"], paused: ["warn", "Paused"], running: ["busy", "Running"], failed: ["bad", "Not complete"],
    cancelled: whole ? ["good", "All here"] : ["idle", "Cancelled"],
    done: ["good", "Done"], idle: whole ? ["good", "All here"] : ["idle", "Idle"],
  };
  const value = w.state === "idle" ? 100 * share.kept / (share.samples || 1) : w.percent;
  setChip($("warmup-state"), ...words[state]);
  setBar($("warmup-bar"), value, { paused: "warn", pending: "idle", cancelled: "idle", failed: "bad" }[state]);
  setText($("warmup-percent"), percent(value, 100));
  setText($("warmup-facts"), warmupFacts(m, state, speed, share));
  $("warmup-start").hidden = Boolean(job) || state === "running";
  $("warmup-pause").hidden = job?.state !== "running";
  $("warmup-resume").hidden = job?.state !== "paused";
  $("warmup-cancel").hidden = !job;
}

function warmupFacts(m, state, speed, share) {
  const w = m.warmup, of = `${count(w.samples_done)} of ${count(w.samples_total)} samples`;
  if (state === "running")
    return [of, speed > 0 && `${rate(speed)} samples/s`, w.eta_s > 0 && `about ${duration(w.eta_s)} left`, w.failed > 0 && `${count(w.failed)} failed`].filter(Boolean).join(" · ");
  if (state === "pending") return "Waiting for its turn.";
  if (state === "paused") return `${of}. It goes on where it stopped.`;
  if (state === "cancelled") return `${of} when it was cancelled. Start again to fetch the rest.`;
  if (state === "failed") return `${count(w.failed)} of ${count(w.samples_total)} samples could not be fetched. Start again to fetch the rest.`;
  if (state === "done") return `${of}, every one of them fetched.`;
  return share.kept ? `${percent(share.kept, share.samples)} ${share.word} is on this node already.` : "Nothing is on this node yet. A warmup fetches it before training asks.";
}

export function showLegend(rates, reads) {
  keyed($("legend"), sources, (s) => s.key, (s) => el("div", {}, el("span", { class: `key key-${s.key}` }), el("dt", {}, s.name), el("dd", {})), (node, s) => {
    setText(node.lastElementChild, `${rates ? rate(rates[s.key]) : "–"} /s · ${count(reads[s.key])} in all`);
  });
}

export function showTiers(m) {
  const tiers = m.cache.tiers;
  setText($("tiers-note"), `${bytes(tiers.reduce((sum, t) => sum + t.used, 0))} of ${bytes(tiers.reduce((sum, t) => sum + t.limit, 0))}`);
  keyed($("tiers"), tiers, (t) => t.dir, (t) => el("li", {},
    el("div", { class: "line" }, el("span", { class: "what" }), el("span", { class: "where", title: t.dir }, t.dir), el("span", { class: "note" })),
    bar(`${t.tier} tier`), el("p", { class: "why", hidden: true })), (node, t) => {
    const [line, progress, why] = node.children;
    const part = t.limit ? 100 * t.used / t.limit : 0;
    const tone = { failed: "bad", full: "warn" }[t.state];
    setText(line.children[0], { mem: "Memory", ssd: "SSD", hdd: "Hard disk" }[t.tier] ?? t.tier);
    setText(line.children[2], `${bytes(t.used)} of ${bytes(t.limit)}`);
    setBar(progress, part, tone);
    why.hidden = t.state === "ok";
    why.dataset.tone = tone ?? "";
    setText(why, t.why || { failed: "Failed: set aside", full: "Full" }[t.state] || "");
  });
}

const memberTones = { ok: "good", lost: "bad", unknown: "idle" };
const memberWords = { ok: "Answers", lost: "Lost", unknown: "Not asked yet" };

// Who has what: this node's own facts are known best; of the others, whether they answer, and how far
// they are in the newest job that says so.
export function showNodes(m, status, members, job) {
  const list = members?.members?.length ? members.members : [{ ordinal: status.ordinal, url: "", state: "ok", partition: m.partition ? `${m.partition.partition}/${m.partition.partitions}` : "" }];
  const total = Math.max(members?.partitions ?? 0, m.partition?.partitions ?? 1, list.length);
  const strip = $("strip");
  setText($("nodes-note"), total === 1 ? "One node keeps the whole set" : `${total} nodes${m.partition ? `, dealt by ${m.partition.strategy}` : ""}`);
  strip.hidden = total === 1;
  strip.setAttribute("aria-label", `${list.filter((n) => n.state === "ok").length} of ${total} partitions are served`);
  keyed(strip, Array.from({ length: Math.min(total, 512) }, (_, k) => k), (k) => k, () => el("span", {}), (node, k) => {
    node.dataset.state = list.find((n) => n.ordinal === k)?.state ?? "unknown";
    node.toggleAttribute("data-here", k === status.ordinal);
    node.title = `Partition ${k}`;
  });
  keyed($("nodes"), list, (n) => n.ordinal, (n) => el("li", {},
    el("div", { class: "line" }, el("span", { class: "what" }), el("span", { class: "where" }), el("span", { class: "chip" })),
    bar(`Node ${n.ordinal}`), el("p", { class: "note" })), (node, n) => showNode(node, n, m, status, job));
}

function showNode(node, n, m, status, job) {
  const here = n.ordinal === status.ordinal, share = shareOf(m);
  const [line, progress, note] = node.children;
  const part = job?.partitions?.find((p) => p.partition === n.ordinal);
  setText(line.children[0], `Node ${n.ordinal}`);
  setText(line.children[1], [here && "this one", n.url && n.url.replace(/^https?:\/\//, "")].filter(Boolean).join(", "));
  node.title = n.why || "";
  setChip(line.children[2], memberTones[n.state] ?? "idle", memberWords[n.state] ?? n.state);
  if (here) setBar(progress, 100 * share.kept / (share.samples || 1));
  else if (part) setBar(progress, part.progress.percent, part.state === "failed" ? "bad" : undefined);
  progress.hidden = !here && !part;
  setText(note, [
    n.partition && `Partition ${n.partition}`,
    here && `${count(share.kept)} of ${count(share.samples)} samples, ${bytes(m.cache.bytes)} in all`,
    !here && part && `${percent(part.progress.percent, 100)} of “${job.id}”`, n.state !== "lost" && part?.error,
  ].filter(Boolean).join(" · "));
}

export function showProblems(list) {
  $("problems").hidden = !list.length;
  keyed($("problem-list"), list, (p) => p.what + p.detail, (p) => el("li", { class: "problem" },
    el("span", { class: "say" }, el("strong", {}, p.what), p.detail ? el("span", { class: "detail" }, p.detail) : null)), (node, p) => { node.dataset.tone = p.tone; });
}

export function showFooter(status, m) {
  const version = m?.version ? ` · set version ${m.version.slice(0, 12)}, scanned ${ago(new Date(m.set.scanned_at * 1000).toISOString())}` : "";
  const mode = m?.mode ? ` · ${m.mode}` : "";
  setText($("footer"), `Sampan ${status.program} · server ${status.ordinal}, up ${duration(status.uptime_s)}${mode}${version}`);
}
