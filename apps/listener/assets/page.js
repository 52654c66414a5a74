"use strict";
const PAUSE_MS = 2000;
const SHOWN_MAX = 20;
const by = (id) => document.getElementById(id);
let token = sessionStorage.getItem("listener-token") || "";
const before = new Map();

async function ask(path, options = {}) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.status === 401) {
    by("door").hidden = false;
    throw new Error("A token is needed.");
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message || `The service answered ${answer.status}.`);
  return body;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function word(lane) {
  if (lane.problem) return "refused";
  if (!lane.is_active) return "paused";
  if (!lane.owner) return "free";
  if (lane.is_stale) return "stale";
  if (lane.live && lane.live.following === "catching-up") return "catching-up";
  return "held";
}

function rate(lane, now) {
  if (!lane.live) return lane.rate === null || lane.rate === undefined ? "–" : `${Math.round(lane.rate)}/s`;
  const last = before.get(lane.lane);
  before.set(lane.lane, { jobs: lane.live.jobs, now });
  if (!last || now <= last.now) return "–";
  return `${Math.round(((lane.live.jobs - last.jobs) * 1000) / (now - last.now))}/s`;
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) list.append(element("dt", name), element("dd", value));
  return list;
}

// What a button asks for stands on it, so that it may be redrawn in place. A name says what is acted on: several look alike.
function button(text, of, path, body) {
  const made = element("button", text);
  made.type = "button";
  made.setAttribute("aria-label", `${text}: ${of}`);
  made.dataset.path = path;
  if (body) made.dataset.body = JSON.stringify(body);
  return made;
}

async function press({ path, body }) {
  if (!path.endsWith("/replay")) return ask(path, { method: "POST", body });
  const hour = new Date(Date.now() - 3600000).toISOString();
  const from = prompt("Read the history again from this moment on. What has its job makes no second one.", hour);
  return from && ask(path, { method: "POST", body: JSON.stringify({ from }) });
}

// Makes one piece of the page like another without replacing it: the focus, a selection and a click that has begun stay.
function become(here, wanted) {
  if (here.nodeName !== wanted.nodeName) return here.replaceWith(wanted);
  if (here.nodeType === Node.TEXT_NODE) {
    if (here.data !== wanted.data) here.data = wanted.data;
    return undefined;
  }
  for (const { name } of [...here.attributes]) if (!wanted.hasAttribute(name)) here.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (here.getAttribute(name) !== value) here.setAttribute(name, value);
  return fill(here, ...wanted.childNodes);
}

function fill(here, ...wanted) {
  const there = [...here.childNodes];
  wanted.forEach((piece, at) => (there[at] ? become(there[at], piece) : here.append(piece)));
  there.slice(wanted.length).forEach((piece) => piece.remove());
}

const tell = (id, text) => by(id).textContent === text || (by(id).textContent = text);
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// A refused listener may name neither.
function watched({ databases, collection }) {
  if (!collection) return databases ? `no collection is named, in ${databases}` : "neither databases nor a collection are named";
  return databases ? `${databases}.${collection}` : `${collection}, in no database that can be watched`;
}

function card(lane, oplog, now) {
  const made = element("article");
  made.id = `lane-${lane.lane}`;
  const state = word(lane);
  const name = lane.job_name || lane.listener;
  made.append(element("span", state.replace("-", " "), `word ${state}`), element("h2", name));
  made.append(element("p", watched(lane)), element("p", lane.lane, "soft"));
  const live = lane.live || {};
  made.append(facts([
    ["lag", span(lane.lag)], ["rate", rate(lane, now)],
    ["lease", span(lane.lease_age)], ["fence", String(lane.fence)],
    ["position", span(lane.position_age)], ["of", span(oplog)],
    ["jobs", live.jobs === undefined ? "–" : String(live.jobs)], ["errors", String(live.errors ?? lane.errors)],
    ["waiting", String(lane.waiting)], ["dead", String(lane.dead_letters)],
  ]));
  made.append(element("p", lane.owner ? `owner ${lane.owner}` : "no owner", "soft"));
  const why = lane.problem || live.last_error || lane.last_error;
  if (why) made.append(element("p", why, "error"));
  const path = `/listeners/${encodeURIComponent(lane.listener)}`;
  const flip = lane.is_active ? "Pause" : "Resume";
  made.append(button(flip, name, `${path}/${flip.toLowerCase()}`), " ", button("Replay", name, `${path}/replay`));
  if (lane.dead_letters + lane.waiting > 0) {
    made.append(" ", button("Do the failed again", name, "/retry", { listener: lane.listener }));
  }
  return made;
}

// A moment of MongoDB's, or of a job of the store.
const moment = (value) => (value ? new Date(value.$date ?? value).toLocaleString() : "–");
const idOf = (value) => value?.$oid ?? value ?? "";

function gapCard(gap) {
  const made = element("article");
  made.append(element("span", gap.state, `word ${gap.state}`), element("h3", gap.listener));
  made.append(facts([["from", moment(gap.from)], ["to", moment(gap.to)], ["code", String(gap.code)], ["jobs", String(gap.jobs)]]));
  made.append(element("p", `deletes: ${gap.deletes}`, "soft"));
  return made;
}

function deadCard(letter) {
  const made = element("article");
  const title = element("h3", letter.document ? undefined : letter.reason);
  if (letter.document) title.append(link(letter.document));
  made.append(element("span", letter.state, `word ${letter.state}`), title);
  made.append(element("p", letter.listener, "soft"), element("p", letter.error, "error"));
  made.append(facts([["since", moment(letter.at)], ["attempts", String(letter.attempts ?? "–")]]));
  if (letter.document) {
    made.append(button("Do it again", letter.document, "/retry", { document: letter.document, listener: letter.listener }));
  }
  return made;
}

// What happened to a document: where it is looked at is part of the address, so that it can be linked to and is kept.
const looked = () => new URLSearchParams(location.hash.slice(1)).get("document");

function link(id) {
  const made = element("a", id);
  made.href = `#document=${encodeURIComponent(id)}`;
  return made;
}

// A table that is a list of facts where it is narrow, so that the roles are said: a browser forgets them then.
function table(title, columns, rows) {
  const filled = columns.filter(([, cell]) => rows.some((row) => cell(row)));
  const made = role(element("table"), "table");
  const line = (cells) => {
    const row = role(element("tr"), "row");
    row.append(...cells);
    return row;
  };
  const head = role(element("thead"), "rowgroup");
  head.append(line(filled.map(([name]) => role(element("th", name), "columnheader"))));
  const body = role(element("tbody"), "rowgroup");
  for (const row of rows) {
    body.append(line(filled.map(([name, cell]) => {
      const shown = cell(row);
      const made = role(element("td", undefined, shown ? "" : "none"), "cell");
      made.dataset.head = name;
      made.append(shown || "–");
      return made;
    })));
  }
  made.append(element("caption", title), head, body);
  return made;
}

function role(made, name) {
  made.setAttribute("role", name);
  return made;
}

const WHAT = { job: "job made", again: "done again", failed: "failed", dead: "given up" };
const state = (text, className) => element("span", text, `tag ${className}`);
const error = (text) => text && element("span", text, "error");

const HAPPENED = [
  ["when", (entry) => moment(entry.at)],
  ["what", (entry) => state(WHAT[entry.what] ?? entry.what, entry.what)],
  ["change", (entry) => entry.operationType],
  ["where", (entry) => entry.database && `${entry.database}.${entry.collection}`],
  ["listener", (entry) => entry.listener],
  ["job", (entry) => entry.jobId],
  ["error", (entry) => error(entry.error)],
];
const JOBS = [
  ["job", (job) => idOf(job._id ?? job.id)],
  ["name", (job) => job.name ?? job.kind],
  ["state", (job) => state(job.state, job.state)],
  ["due", (job) => (job.nextRunAt ?? job.createdAt) && moment(job.nextRunAt ?? job.createdAt)],
  ["started", (job) => job.lastRunAt && moment(job.lastRunAt)],
  ["ended", (job) => job.lastFinishedAt && moment(job.lastFinishedAt)],
  ["error", (job) => error(job.failReason)],
];

async function look() {
  const id = looked();
  if (!id) return fill(by("answer"));
  const found = await ask(`/documents/${encodeURIComponent(id)}`).catch((why) => ({ why }));
  if (looked() !== id) return undefined;
  if (found.why) return fill(by("answer"), element("p", found.why.message, "error"));
  const pieces = [element("h3", id)];
  if (found.dead_letters.length > 0) {
    const cards = element("div", undefined, "cards");
    cards.append(...found.dead_letters.map(deadCard));
    pieces.push(cards);
  }
  if (found.history.length > 0) pieces.push(table("What happened, the newest first", HAPPENED, found.history));
  if (found.jobs.length > 0) pieces.push(table("Its jobs", JOBS, found.jobs));
  return fill(by("answer"), ...pieces);
}

function say(error) {
  tell("state", `${error.message} Trying again.`);
}

async function show() {
  const [status, lost, failed] = await Promise.all([ask("/status"), ask("/gaps"), ask("/dead")]);
  const { report } = status;
  by("door").hidden = true;
  fill(by("lanes"), ...report.lanes.map((lane) => card(lane, report.oplog_window, Date.now())));
  by("none").hidden = report.lanes.length > 0;
  fill(by("problems"), ...status.problems.map((text) => element("li", text)));
  by("trouble").hidden = status.problems.length === 0;
  fill(by("warnings"), ...status.warnings.map((text) => element("li", text)));
  by("warned").hidden = status.warnings.length === 0;
  fill(by("gaps"), ...lost.gaps.slice(0, SHOWN_MAX).map(gapCard));
  by("gap-part").hidden = lost.gaps.length === 0;
  fill(by("dead"), ...failed.dead.slice(0, SHOWN_MAX).map(deadCard));
  by("dead-count").textContent = failed.dead.length > SHOWN_MAX ? `the newest ${SHOWN_MAX} of ${failed.dead.length}` : "";
  by("dead-part").hidden = failed.dead.length === 0;
  fill(by("instances"), ...report.instances.map((one) =>
    element("li", `${one.id}: ${counted(one.lanes, "listener")}, heard of ${span(one.age)} ago${one.is_live ? "" : ", gone"}`)));
  const held = report.lanes.filter((lane) => word(lane) === "held").length;
  // Only what has changed is told to who listens to the page: the time changes with every look.
  tell("state", `${counted(report.lanes.length, "listener")}, ${held} held`);
  tell("when", new Date().toLocaleTimeString());
}

async function loop() {
  if (!document.hidden) await Promise.all([show(), looked() && look()]).catch(say);
  setTimeout(loop, PAUSE_MS);
}

by("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = by("token").value;
  sessionStorage.setItem("listener-token", token);
  show().catch(say);
});
by("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  by("said").textContent = "";
  // The same once more is no change of the address.
  if (looked() === by("document").value) look();
  else location.hash = `document=${encodeURIComponent(by("document").value)}`;
});
by("again").addEventListener("click", () => {
  if (!by("ask").reportValidity()) return;
  ask("/retry", { method: "POST", body: JSON.stringify({ document: by("document").value }) }).then(
    (done) => (by("said").textContent = `It will be done again by ${counted(done.asked, "listener")}.`),
    (error) => (by("said").textContent = error.message),
  ).then(look);
});
function turned() {
  by("document").value = looked() ?? "";
  return look().then(() => by("answer").scrollIntoView({ block: "nearest" }));
}
addEventListener("hashchange", turned);
if (looked()) by("document").value = looked();
document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button[data-path]");
  if (pressed) press(pressed.dataset).then(show, say);
});
loop();
