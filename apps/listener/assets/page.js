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

function card(lane, oplog, now) {
  const made = element("article");
  made.id = `lane-${lane.lane}`;
  const state = word(lane);
  const name = lane.job_name || lane.listener;
  made.append(element("span", state.replace("-", " "), `word ${state}`), element("h2", name));
  made.append(element("p", `${lane.databases}.${lane.collection}`), element("p", lane.lane, "soft"));
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

const moment = (value) => (value && value.$date ? new Date(value.$date).toLocaleString() : "–");

function gapCard(gap) {
  const made = element("article");
  made.append(element("span", gap.state, `word ${gap.state}`), element("h3", gap.listener));
  made.append(facts([["from", moment(gap.from)], ["to", moment(gap.to)], ["code", String(gap.code)], ["jobs", String(gap.jobs)]]));
  made.append(element("p", `deletes: ${gap.deletes}`, "soft"));
  return made;
}

function deadCard(letter) {
  const made = element("article");
  made.append(element("span", letter.state, `word ${letter.state}`), element("h3", letter.document || letter.reason));
  made.append(element("p", letter.listener, "soft"), element("p", letter.error, "error"));
  made.append(facts([["since", moment(letter.at)], ["attempts", String(letter.attempts ?? "–")]]));
  if (letter.document) {
    made.append(button("Do it again", letter.document, "/retry", { document: letter.document, listener: letter.listener }));
  }
  return made;
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
  if (!document.hidden) await show().catch(say);
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
  ask(`/documents/${encodeURIComponent(by("document").value)}`).then(
    (found) => {
      const text = element("pre", JSON.stringify(found, null, 2));
      // It may be wider than the page, and is scrolled by keys then.
      text.tabIndex = 0;
      text.setAttribute("role", "region");
      text.setAttribute("aria-label", "What is known of the document");
      by("answer").replaceChildren(text);
    },
    (error) => by("answer").replaceChildren(element("p", error.message, "error")),
  );
});
by("again").addEventListener("click", () => {
  ask("/retry", { method: "POST", body: JSON.stringify({ document: by("document").value }) }).then(
    (done) => by("answer").replaceChildren(element("p", `It will be done again by ${counted(done.asked, "listener")}.`)),
    (error) => by("answer").replaceChildren(element("p", error.message, "error")),
  );
});
document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button[data-path]");
  if (pressed) press(pressed.dataset).then(show, say);
});
loop();
