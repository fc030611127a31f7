// Numbers and states in words for people.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n) {
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit && n < 99.95 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

export function count(n) {
  return Math.round(n).toLocaleString("en");
}

// A rate: exact where it is small.
export function rate(n) {
  return n > 0 && n < 10 ? n.toFixed(1) : count(n);
}

// Never rounded up to 100: that is said of what is whole, and of nothing else.
export function percent(part, whole) {
  if (!whole || part <= 0) return "0 %";
  if (part >= whole) return "100 %";
  const p = 100 * part / whole;
  return `${p < 10 ? p.toFixed(1) : Math.min(99, Math.floor(p))} %`;
}

export function duration(s) {
  if (s < 1) return "less than a second";
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.round(s % 3600 / 60)} min`;
  return `${Math.round(s / 86400)} days`;
}

export function ago(text) {
  const s = (Date.now() - Date.parse(text)) / 1000;
  return s < 5 ? "just now" : `${duration(s)} ago`;
}

export const jobTones = {
  pending: "idle", running: "busy", paused: "warn", succeeded: "good", failed: "bad", cancelled: "idle",
};
export const jobWords = {
  pending: "Waiting", running: "Running", paused: "Paused", succeeded: "Done", failed: "Failed", cancelled: "Cancelled",
};
export const jobKinds = {
  warmup: "Warmup", scan: "Scan", evict: "Eviction", clear: "Clear", sync: "Sync", rmr: "Removal",
};

export const sources = [
  { key: "mem", name: "Memory", note: "kept in memory" },
  { key: "disk", name: "Local disk", note: "kept on this node" },
  { key: "peer", name: "Peers", note: "kept on another node" },
  { key: "store", name: "Store", note: "fetched from far" },
];

// What is wrong, worst first: {tone, what, detail}. Nothing that works is listed.
export function problemsOf(mount, members, jobs) {
  const list = [];
  const add = (tone, what, detail = "") => list.push({ tone, what, detail });
  if (mount) mountProblems(mount, add);
  for (const m of members?.members ?? [])
    if (m.state === "lost") add("warn", `Node ${m.ordinal} does not answer.`, "Its samples come from the store until it is back.");
  for (const j of jobs)
    if (j.state === "failed" && Date.now() - Date.parse(j.ended) < 3600e3)
      add("bad", `${jobKinds[j.type] ?? j.type} “${j.id}” failed.`, j.error);
  return list.sort((a, b) => (a.tone === "bad" ? 0 : 1) - (b.tone === "bad" ? 0 : 1));
}

function mountProblems(m, add) {
  const states = {
    lost: ["bad", "The mount does not answer.", m.error],
    degraded: ["bad", "The mount is degraded.", m.why],
    recovering: ["warn", "The mount is starting again.", "Readers wait for a moment and see no error."],
  };
  if (states[m.state]) add(...states[m.state]);
  for (const t of m.cache?.tiers ?? []) {
    if (t.state === "failed") add("bad", `The ${t.tier} tier at ${t.dir} failed and is set aside.`, t.why || "Reads go on without it.");
    if (t.state === "full") add("warn", `The ${t.tier} tier at ${t.dir} is full.`, t.why || "What does not fit is read from its source each time.");
  }
  if (m.warmup?.state === "failed") add("bad", "The last warmup is not complete.", m.warmup.error || `${count(m.warmup.failed)} samples could not be fetched.`);
  if (m.order?.error) add("warn", "The reading order cannot be used.", m.order.error);
  if (m.reads?.errors) add("warn", `${count(m.reads.errors)} reads failed since the mount began.`, "Their programs were told. The daemon's log names each.");
  if (m.stale) {
    const first = m.stale_objects?.[0];
    add("warn", `${count(m.stale)} samples changed at the source since the last scan.`, first ? `${first.path}: ${first.why}. A scan takes the new ones over.` : "A scan takes the new ones over.");
  }
}
