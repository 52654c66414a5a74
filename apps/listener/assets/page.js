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

function button(text, act) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", () => act().then(show, say));
  return made;
}

async function replay(path) {
  const hour = new Date(Date.now() - 3600000).toISOString();
  const from = prompt("Read the history again from this moment on. What has its job makes no second one.", hour);
  if (from) await ask(`${path}/replay`, { method: "POST", body: JSON.stringify({ from }) });
}

function card(lane, oplog, now) {
  const made = element("article");
  made.id = `lane-${lane.lane}`;
  const state = word(lane);
  made.append(element("span", state.replace("-", " "), `word ${state}`), element("h3", lane.job_name || lane.listener));
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
  const flip = lane.is_active ? "pause" : "resume";
  made.append(button(lane.is_active ? "Pause" : "Resume", () => ask(`${path}/${flip}`, { method: "POST" })));
  made.append(" ", button("Replay", () => replay(path)));
  if (lane.dead_letters + lane.waiting > 0) {
    made.append(" ", button("Do the failed again", () => ask("/retry", { method: "POST", body: JSON.stringify({ listener: lane.listener }) })));
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
    const body = JSON.stringify({ document: letter.document, listener: letter.listener });
    made.append(button("Do it again", () => ask("/retry", { method: "POST", body })));
  }
  return made;
}

function say(error) {
  by("state").textContent = `${error.message} Trying again.`;
}

async function show() {
  const [status, lost, failed] = await Promise.all([ask("/status"), ask("/gaps"), ask("/dead")]);
  const { report } = status;
  by("door").hidden = true;
  by("lanes").replaceChildren(...report.lanes.map((lane) => card(lane, report.oplog_window, Date.now())));
  by("none").hidden = report.lanes.length > 0;
  by("problems").replaceChildren(...status.problems.map((text) => element("li", text)));
  by("trouble").hidden = status.problems.length === 0;
  by("warnings").replaceChildren(...status.warnings.map((text) => element("li", text)));
  by("warned").hidden = status.warnings.length === 0;
  by("gaps").replaceChildren(...lost.gaps.slice(0, SHOWN_MAX).map(gapCard));
  by("gap-part").hidden = lost.gaps.length === 0;
  by("dead").replaceChildren(...failed.dead.slice(0, SHOWN_MAX).map(deadCard));
  by("dead-count").textContent = failed.dead.length > SHOWN_MAX ? `the newest ${SHOWN_MAX} of ${failed.dead.length}` : "";
  by("dead-part").hidden = failed.dead.length === 0;
  by("instances").replaceChildren(...report.instances.map((one) =>
    element("li", `${one.id}: ${one.lanes} listeners, heard of ${span(one.age)} ago${one.is_live ? "" : ", gone"}`)));
  const held = report.lanes.filter((lane) => word(lane) === "held").length;
  by("state").textContent = `${report.lanes.length} listeners, ${held} held, ${new Date().toLocaleTimeString()}`;
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
    (found) => by("answer").replaceChildren(element("pre", JSON.stringify(found, null, 2))),
    (error) => by("answer").replaceChildren(element("p", error.message, "error")),
  );
});
by("again").addEventListener("click", () => {
  ask("/retry", { method: "POST", body: JSON.stringify({ document: by("document").value }) }).then(
    (done) => by("answer").replaceChildren(element("p", `${done.asked} will be done again`)),
    (error) => by("answer").replaceChildren(element("p", error.message, "error")),
  );
});
by("all-again").addEventListener("click", () => {
  ask("/retry", { method: "POST", body: JSON.stringify({ all_failed: true }) }).then(show, say);
});
loop();
