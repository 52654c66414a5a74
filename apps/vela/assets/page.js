"use strict";
// Shows how the shops do, and asks anew every second while somebody looks; less often where an answer takes long, so
// that who looks on keeps nobody from working.
const PAUSE_MS = 1000;
const REST = 9;
const by = (id) => document.getElementById(id);
let token = sessionStorage.getItem("vela-token") || "";
let pages = 1;

async function ask(path, options = {}) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.status === 401) {
    by("door").hidden = false;
    throw new Error("A token is needed.");
  }
  if (!answer.ok) throw new Error(`The task manager answered ${answer.status}.`);
  return answer.json();
}

// The names of the columns, which a narrow screen shows beside each cell.
function named(tr, table) {
  const heads = document.querySelectorAll(`#${table} th`);
  [...tr.children].forEach((td, at) => { td.dataset.name = heads[at]?.textContent ?? ""; });
  return tr;
}

function cell(text, className) {
  const td = document.createElement("td");
  td.textContent = text ?? "";
  if (className) td.className = className;
  return td;
}

const time = (text) => (text ? new Date(text).toLocaleString() : "–");
const words = (text) => (text || "").replaceAll("_", " ");

function progress(shop) {
  const uploading = shop.status === "uploading";
  const done = uploading ? shop.uploaded : shop.downloaded;
  const all = done + (uploading ? shop.to_upload : shop.to_download);
  const td = document.createElement("td");
  td.className = "progress";
  const bar = document.createElement("progress");
  bar.max = Math.max(all, 1);
  bar.value = all ? Math.min(done, all) : shop.status === "up_to_date" ? 1 : 0;
  bar.setAttribute("aria-label", `${done} of ${all} listings`);
  bar.title = `${done} of ${all} listings`;
  td.append(bar, document.createTextNode(` ${done} / ${all}`));
  return td;
}

function row(shop) {
  const tr = document.createElement("tr");
  tr.id = `shop-${shop.shop_id}`;
  const last = Object.entries(shop.last_success_at).map(([kind, at]) => `${words(kind)}: ${time(at)}`);
  const error = shop.last_error;
  const about = error?.listing_id ? `Listing ${error.listing_id}: ` : "";
  tr.append(
    cell(shop.name ? `${shop.name} (${shop.shop_id})` : String(shop.shop_id)),
    cell(words(shop.status), "status"),
    progress(shop),
    cell(String(shop.to_download), "number"),
    cell(String(shop.to_upload), "number"),
    cell(last.join("\n") || "–", "lines"),
    cell(time(shop.next_attempt_at)),
    cell(error ? about + error.message : "", "error"),
  );
  return named(tr, "of-shops");
}

function failedRow(task) {
  const tr = document.createElement("tr");
  const retry = document.createElement("button");
  retry.textContent = "Try again";
  retry.addEventListener("click", () => ask(`/tasks/${task.id}/retry`, { method: "POST" }).then(show, say));
  const last = document.createElement("td");
  last.append(retry);
  tr.append(
    cell(task.id), cell(String(task.shop_id)), cell(words(task.type)), cell(words(task.reason), "status"),
    cell(time(task.since)), cell(task.error, "error"), last,
  );
  return named(tr, "of-failed");
}

async function shops() {
  let all = [];
  let cursor = "";
  for (let page = 0; page < pages; page += 1) {
    const after = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
    const answer = await ask(`/shops?limit=100${after}`);
    all = all.concat(answer.shops);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  by("more").hidden = !cursor;
  return all;
}

// Only rows that changed are made anew, so that whoever is about to press a button keeps it.
const shown = new WeakMap();

function fill(body, things, make) {
  const had = new Map([...body.children].map((tr) => [shown.get(tr), tr]));
  const rows = things.map((thing) => {
    const text = JSON.stringify(thing);
    const tr = had.get(text) ?? make(thing);
    shown.set(tr, text);
    return tr;
  });
  if (rows.length !== body.children.length || rows.some((tr, at) => tr !== body.children[at])) {
    body.replaceChildren(...rows);
  }
}

function say(error) {
  by("state").textContent = `${error.message} Trying again.`;
}

async function show() {
  const [all, failed] = await Promise.all([shops(), ask("/tasks?state=failed")]);
  by("door").hidden = true;
  fill(by("shops"), all, row);
  by("none").hidden = all.length > 0;
  fill(by("failed"), failed.tasks, failedRow);
  by("trouble").hidden = failed.tasks.length === 0;
  by("state").textContent = `${all.length} shown, ${new Date().toLocaleTimeString()}`;
}

async function loop() {
  const began = performance.now();
  if (!document.hidden) await show().catch(say);
  setTimeout(loop, Math.max(PAUSE_MS, REST * (performance.now() - began)));
}

by("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = by("token").value;
  sessionStorage.setItem("vela-token", token);
  show().catch(say);
});
by("more").addEventListener("click", () => {
  pages += 1;
  show().catch(say);
});
loop();
