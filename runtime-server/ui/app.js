// The page's state: what the server said last, and when it is asked again.

import { Failure, ask, listen, token } from "./api.js";
import { $, el, keyed, setChip, setText, showFooter, showLegend, showNodes, showOverview, showProblems, showTiers, showWarmup } from "./cards.js";
import { Chart } from "./chart.js";
import { confirmCancel, newName, prepareNewJob, showJobs } from "./jobs.js";
import { problemsOf, sources } from "./words.js";

const refusalMs = 20000;
const everyMs = 2000, everyHiddenMs = 15000, membersEveryMs = 6000;

const state = {
  status: null, jobs: new Map(), members: null, noMembers: false, mount: "", failure: null,
  before: new Map(), // mount point -> the figures of the last look
  rates: null, speed: null,
  linked: false, // events come; else the list is asked for at each look
  refusal: null, // what was asked for and not done: {what, until}
};
const chart = new Chart($("chart"), $("chart-value"), 300);
let stopListening = null, timer = 0, membersAt = 0;

// A cluster's job here has a part of its own on each server; where the whole is known, it stands for them.
const isPart = (j) => state.jobs.get(j.id.replace(/\.p\d+$/, ""))?.options?.scope === "cluster" && /\.p\d+$/.test(j.id);
const jobList = () => [...state.jobs.values()].filter((j) => !isPart(j)).sort((a, b) => b.created.localeCompare(a.created) || b.id.localeCompare(a.id));
const mountShown = () => state.status?.mounts.find((m) => m.mountpoint === state.mount) ?? state.status?.mounts[0];
const isOf = (job, mount) => !job.options?.mount || job.options.mount === mount?.mountpoint;

function say(text) {
  setText($("spoken"), text);
}

// --- showing --------------------------------------------------------------------------------------

function showMounts() {
  const mounts = state.status.mounts;
  $("mount-choice").hidden = mounts.length < 2;
  keyed($("mount"), mounts, (m) => m.mountpoint, (m) => el("option", { value: m.mountpoint }, m.mountpoint), () => {});
  $("mount").value = mountShown()?.mountpoint ?? "";
}

function showLink() {
  const f = state.failure;
  if (f?.status === 401) setChip($("link"), "idle", "Signed out");
  else if (f) setChip($("link"), "bad", "No connection");
  else setChip($("link"), "good", "Live");
  $("sign-out").hidden = !token.get();
}

function show() {
  showLink();
  if (!state.status) return;
  const m = mountShown(), jobs = jobList();
  const problems = problemsOf(m, state.members, jobs);
  if (state.failure && state.failure.status !== 401) problems.unshift({ tone: "bad", what: state.failure.message, detail: "What is shown here is from before." });
  if (state.refusal && Date.now() < state.refusal.until) problems.unshift({ tone: "bad", what: state.refusal.what, detail: "" });
  if (!m) problems.push({ tone: "warn", what: "This server speaks for no mount.", detail: "Start it with --mount MOUNTPOINT to see a set here." });
  showProblems(problems);
  showMounts();
  showFooter(state.status, m);
  showJobs(jobs, act);
  setText($("set-uri"), m?.uri ?? m?.mountpoint ?? "");
  document.title = m?.uri ? `${m.uri} · Sampan` : "Sampan";
  if (!m?.set) return;
  const job = jobs.find((j) => j.type === "warmup" && !j.schedule && ["running", "paused", "pending"].includes(j.state) && isOf(j, m));
  showOverview(m, state.rates);
  showWarmup(m, job, state.speed);
  showLegend(state.rates, m.reads);
  showTiers(m);
  showNodes(m, state.status, state.members, jobs.find((j) => j.partitions?.length));
}

// Rates are differences of counters; a counter that went back began anew.
function measure(now) {
  for (const m of state.status.mounts) {
    if (!m.reads) continue;
    const old = state.before.get(m.mountpoint), seconds = old ? (now - old.time) / 1000 : 0;
    const grown = (to, from) => (seconds > 0 && to >= from ? (to - from) / seconds : 0);
    const shown = m === mountShown();
    if (shown && old) {
      state.rates = { total: grown(m.reads.total, old.reads.total), bytes: grown(m.reads.bytes, old.reads.bytes) };
      for (const { key } of sources) state.rates[key] = grown(m.reads[key], old.reads[key]);
      state.speed = m.warmup.state === "running" ? grown(m.warmup.samples_done, old.done) : null;
      chart.add(now, state.rates);
    }
    state.before.set(m.mountpoint, { time: now, reads: m.reads, done: m.warmup.samples_done });
  }
}

// --- asking ---------------------------------------------------------------------------------------

async function lookAtMembers(now) {
  if (state.noMembers || now - membersAt < membersEveryMs) return;
  membersAt = now;
  try {
    state.members = await ask("GET", "v1/members");
  } catch (f) {
    state.noMembers = f.status === 404; // a server on its own
    if (f.status === 401) throw f;
  }
}

async function look() {
  clearTimeout(timer);
  try {
    state.status = await ask("GET", "v1/status");
    await lookAtMembers(Date.now());
    state.failure = null;
    measure(performance.now());
    if (!stopListening) startListening();
    if (!state.linked) await lookAtJobs();
  } catch (f) {
    if (!(f instanceof Failure)) throw f;
    state.failure = f;
    if (f.status === 401) signIn(token.get() ? "The server does not take this token. Is it the newest?" : "");
  } finally {
    show();
    if (state.failure?.status !== 401) timer = setTimeout(look, document.hidden ? everyHiddenMs : everyMs);
  }
}

function startListening() {
  stopListening = new AbortController();
  listen("events", onEvent, onLink, stopListening.signal);
}

async function lookAtJobs() {
  const { jobs } = await ask("GET", "v1/jobs");
  state.jobs = new Map(jobs.map((j) => [j.id, { ...state.jobs.get(j.id), ...j }]));
}

// The stream is up (again): what changed while nobody listened is in the list.
async function onLink(failure) {
  state.linked = !failure;
  if (failure?.status === 401) stopListening = null;
  if (failure) return;
  try {
    await lookAtJobs();
  } catch {
    state.linked = false; // the next look says why
  }
  show();
}

// The answer to what was asked for. Events may be here before it, and then they are newer.
function takeAnswer(job) {
  if (!state.linked || !state.jobs.has(job.id)) state.jobs.set(job.id, job);
}

function onEvent(name, data) {
  if (name !== "job") return;
  const old = state.jobs.get(data.id);
  state.jobs.set(data.id, data);
  if (old?.state !== data.state && ["succeeded", "failed", "cancelled", "paused"].includes(data.state)) {
    say(`${data.id} ${{ succeeded: "is done", failed: `failed: ${data.error}`, cancelled: "was cancelled", paused: "is paused" }[data.state]}`);
    look();
  }
  show();
}

// --- doing ----------------------------------------------------------------------------------------

async function tell(method, path, body) {
  try {
    takeAnswer(await ask(method, path, body));
    state.refusal = null;
  } catch (f) {
    state.refusal = { what: f.message, until: Date.now() + refusalMs };
  }
  await look();
}

async function act(verb, id) {
  const path = `v1/jobs/${encodeURIComponent(id)}`;
  if (verb !== "cancel") await tell("POST", `${path}/${verb}`);
  else if (await confirmCancel(id)) await tell("DELETE", path);
}

function warmupJob() {
  const m = mountShown();
  return jobList().find((j) => j.type === "warmup" && ["running", "paused", "pending"].includes(j.state) && isOf(j, m));
}

function signIn(why) {
  const box = $("sign-in");
  stopListening?.abort();
  stopListening = null;
  setText($("sign-in-error"), why);
  if (box.open) return;
  $("token").value = "";
  box.showModal();
}

$("sign-in").querySelector("form").addEventListener("submit", () => {
  token.set($("token").value.trim());
  $("token").value = "";
  look();
});
$("sign-in").addEventListener("cancel", (e) => e.preventDefault()); // there is nothing behind it
$("sign-out").addEventListener("click", () => {
  token.forget();
  location.reload();
});
$("mount").addEventListener("change", (e) => {
  state.mount = e.target.value;
  state.rates = state.speed = null;
  chart.clear();
  show();
});
$("warmup-start").addEventListener("click", () => {
  const m = mountShown();
  if (m) tell("POST", "v1/jobs", { id: newName("warmup", jobList()), type: "warmup", options: { mount: m.mountpoint } });
});
for (const verb of ["pause", "resume", "cancel"])
  $(`warmup-${verb}`).addEventListener("click", () => {
    const job = warmupJob();
    if (job) act(verb, job.id);
  });
document.addEventListener("visibilitychange", () => document.hidden || look());
prepareNewJob(jobList, () => mountShown()?.mountpoint, (job) => {
  if (job) takeAnswer(job);
  show();
});
showLegend(null, { mem: 0, disk: 0, peer: 0, store: 0 });
look();
