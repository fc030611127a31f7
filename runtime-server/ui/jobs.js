// Jobs: the table, and the dialogs that start and end them.

import { ask } from "./api.js";
import { $, bar, el, keyed, setBar, setChip, setText } from "./cards.js";
import { ago, bytes, count, duration, jobKinds, jobTones, jobWords, percent } from "./words.js";

const shownAtFirst = 12;
let showAll = false;

const active = (j) => j.state === "pending" || j.state === "running" || j.state === "paused";

// What a job has done, in a line.
function story(j) {
  const p = j.progress, parts = [];
  if (j.schedule) return `Runs at “${j.schedule}” ${j.timeZone || "UTC"}${j.next ? `, next ${new Date(j.next).toLocaleString()}` : ""}`;
  if (j.error) return j.error;
  if (p.total) parts.push(`${count(p.items)} of ${count(p.total)}`);
  else if (p.items) parts.push(count(p.items));
  if (p.bytes) parts.push(bytes(p.bytes));
  if (p.failed) parts.push(`${count(p.failed)} failed`);
  if (p.eta_s && j.state === "running") parts.push(`about ${duration(p.eta_s)} left`);
  return parts.join(" · ");
}

function time(j) {
  if (j.ended && j.started) {
    const took = (Date.parse(j.ended) - Date.parse(j.started)) / 1000;
    return `${ago(j.ended)}, took ${took < 1 ? "under 1 s" : duration(took)}`;
  }
  return j.started ? `for ${duration((Date.now() - Date.parse(j.started)) / 1000)}` : `asked ${ago(j.created)}`;
}

function make(j, act) {
  const button = (verb, label, more = "") => {
    const b = el("button", { type: "button", class: `small ${more}`, "data-verb": verb, "aria-label": `${label} ${j.id}` }, label);
    b.addEventListener("click", () => act(verb, j.id));
    return b;
  };
  return el("tr", {},
    el("td", {}, el("p", { class: "job-id" }, j.id), el("p", { class: "job-kind" }, jobKinds[j.type] ?? j.type)),
    el("td", {}, el("span", { class: "chip" })),
    el("td", { class: "how" }, bar(`Progress of ${j.id}`), el("span", { class: "note" })),
    el("td", { class: "when note" }),
    el("td", { class: "do" }, el("div", { class: "actions" }, button("pause", "Pause"), button("resume", "Resume"), button("cancel", "Cancel"))));
}

function showParts(cell, j) {
  let box = cell.querySelector(".parts");
  if (!j.partitions?.length) return;
  if (!box) {
    box = el("details", { class: "parts" }, el("summary", {}), el("ul", {}));
    cell.append(box);
  }
  const done = j.partitions.filter((p) => p.state === "succeeded").length;
  setText(box.firstElementChild, `${done} of ${j.partitions.length} partitions done`);
  keyed(box.lastElementChild, j.partitions, (p) => p.partition,
    (p) => el("li", {}, el("span", {}, `Partition ${p.partition}`), bar(`Partition ${p.partition}`), el("span", {})),
    (node, p) => {
      setBar(node.children[1], p.progress.percent, { failed: "bad", paused: "warn" }[p.state]);
      setText(node.children[2], percent(p.progress.percent, 100));
      node.title = p.error;
    });
}

function update(row, j) {
  const [, state, how, when, actions] = row.children;
  const progress = how.children[0], note = how.children[1];
  setChip(state.firstElementChild, jobTones[j.state] ?? "idle", j.schedule && j.state === "pending" ? "Scheduled" : jobWords[j.state] ?? j.state);
  setBar(progress, j.progress.percent, { failed: "bad", paused: "warn", cancelled: "idle" }[j.state]);
  progress.hidden = Boolean(j.schedule) || j.state === "pending";
  setText(note, story(j));
  note.classList.toggle("wrong", j.state === "failed");
  showParts(how, j);
  setText(when, time(j));
  const [pause, resume, cancel] = actions.firstElementChild.children;
  const held = document.activeElement;
  pause.hidden = j.state !== "running" && j.state !== "pending";
  resume.hidden = j.state !== "paused";
  cancel.hidden = !active(j);
  if (row.contains(held) && held.hidden) (resume.hidden ? (pause.hidden ? $("job-new") : pause) : resume).focus();
}

export function showJobs(jobs, act) {
  const shown = showAll ? jobs : jobs.filter((j, i) => i < shownAtFirst || active(j));
  const running = jobs.filter((j) => j.state === "running").length;
  $("jobs").hidden = !jobs.length;
  $("jobs-none").hidden = jobs.length > 0;
  $("jobs-more").hidden = shown.length === jobs.length;
  setText($("jobs-more"), `Show ${count(jobs.length - shown.length)} older jobs`);
  setText($("jobs-note"), jobs.length ? `${running} running, ${count(jobs.length)} in all` : "");
  keyed($("job-rows"), shown, (j) => j.id, (j) => make(j, act), update);
}

// --- dialogs --------------------------------------------------------------------------------------

function twoDigits(n) {
  return String(n).padStart(2, "0");
}

// A name that is new and says when.
export function newName(type, jobs) {
  const d = new Date();
  const name = `${type}-${d.getFullYear()}${twoDigits(d.getMonth() + 1)}${twoDigits(d.getDate())}-${twoDigits(d.getHours())}${twoDigits(d.getMinutes())}${twoDigits(d.getSeconds())}`;
  const taken = new Set(jobs.map((j) => j.id));
  let free = name;
  for (let n = 2; taken.has(free); n++) free = `${name}-${n}`;
  return free;
}

// Asks before something is ended; resolves to true or false.
export function confirmCancel(id) {
  const box = $("confirm");
  setText($("confirm-text"), `“${id}” stops now. What it has done already stays done.`);
  box.returnValue = "no";
  box.showModal();
  return new Promise((done) => box.addEventListener("close", () => done(box.returnValue === "yes"), { once: true }));
}

const hints = {
  warmup: "Samples that are here already are not fetched again.",
  scan: "A new version of the set is published if something changed; readers switch to it without a pause.",
  evict: "Samples leave the cache until no more than this is left. The source keeps them.",
  clear: "The local copies are dropped. The source keeps them; reads fetch them again.",
};

function showFields(type, jobs) {
  for (const node of document.querySelectorAll("#new-job [data-for]")) node.hidden = !node.dataset.for.split(" ").includes(type);
  $("job-id").value = newName(type, jobs);
  setText($("job-hint"), hints[type]);
  setText($("job-error"), "");
}

function optionsOf(type, mount) {
  const options = { mount };
  const paths = $("job-paths").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if ((type === "warmup" || type === "clear") && paths.length) options.paths = paths;
  if (type === "warmup") options.verify = $("job-verify").checked;
  if (type === "evict") options.to = Math.round(Number($("job-keep").value || 0) * 2 ** 30);
  return options;
}

export function prepareNewJob(jobsOf, mountOf, done) {
  const box = $("new-job"), type = $("job-type");
  $("job-new").addEventListener("click", () => {
    showFields(type.value, jobsOf());
    box.showModal();
    type.focus();
  });
  type.addEventListener("change", () => showFields(type.value, jobsOf()));
  $("job-close").addEventListener("click", () => box.close());
  $("jobs-more").addEventListener("click", () => {
    showAll = true;
    done();
  });
  box.querySelector("form").addEventListener("submit", async (e) => {
    e.preventDefault();
    setText($("job-error"), "");
    $("job-submit").disabled = true;
    try {
      done(await ask("POST", "v1/jobs", { id: $("job-id").value, type: type.value, options: optionsOf(type.value, mountOf()) }));
      box.close();
    } catch (failure) {
      setText($("job-error"), failure.message);
    }
    $("job-submit").disabled = false;
  });
}
