// Keeps the page alive: hears the server's events and asks for the inner part
// of the same address again. Old data stays until new data is there.

import { morph } from "./morph.js";
import { anchored, hold, release, start as startStill } from "./still.js";
import { setClock } from "./times.js";

/** The shortest time between two looks at the server. */
const PAUSE_MS = 150;
/** How long a look waits when the ones before it failed: doubled up to this. */
const BACKOFF_MS_MAX = 10_000;

let source = null;
let since = "";
let looking = false;
let wanted = false;
let pausing = 0;
let failures = 0;
let leaving = false;
/** Whether the next look shows all of it, also where a list is held still. */
let all = false;

const main = () => document.getElementById("main");

export function start() {
  since = main().dataset.since ?? "";
  if (!since) return;
  startStill(look);
  listen();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hush();
    else {
      listen();
      look();
    }
  });
  addEventListener("pageshow", (event) => event.persisted && (listen(), look()));
  addEventListener("popstate", () => look({ all: true }));
}

/** Looks no more, since the page is being left: what it showed may be gone. Or does so again. */
export function leave(isLeaving) {
  leaving = isLeaving;
}

/** Shows another view of the same page, and holds it in the address bar. */
export function show(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  return look({ all: true });
}

/** Asks for the page anew, at once; at most one question is under way. */
export async function look(how = {}) {
  if (leaving) return;
  all ||= how.all === true;
  wanted = true;
  if (looking) return;
  clearTimeout(pausing);
  looking = true;
  wanted = false;
  const began = performance.now();
  try {
    await ask();
    failures = 0;
  } catch {
    failures += 1;
    wanted = true;
    say("waiting for the server", "bad");
  }
  looking = false;
  // A slow answer is asked for less often, and one that failed less and less often.
  const pause = failures ? Math.min(BACKOFF_MS_MAX, 500 * 2 ** failures) : Math.max(PAUSE_MS, 4 * (performance.now() - began));
  pausing = setTimeout(() => {
    pausing = 0;
    if (wanted) look();
  }, pause);
}

/** Something happened: look now, or as soon as the pause is over. */
function soon() {
  wanted = true;
  if (!looking && !pausing) look();
}

async function ask() {
  const address = location.pathname + location.search;
  const answer = await fetch(address, { headers: { "x-windlass-part": "1" } });
  if (answer.status === 401) return location.assign(`/sign-in?next=${encodeURIComponent(address)}`);
  const text = await answer.text();
  if (address !== location.pathname + location.search) return void (wanted = true);
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  if (!fresh) throw new Error("not a page");
  if (all) all = !release();
  else if (!hold(main(), fresh)) return;
  anchored(() => morph(main(), fresh));
  setClock(fresh);
  document.title = `${fresh.dataset.title} · windlass`;
  if (source?.readyState === EventSource.OPEN) say("live", "good");
  document.dispatchEvent(new Event("windlass:shown"));
}

function listen() {
  if (source || document.hidden) return;
  const ticks = Number(main().dataset.ticks ?? 0);
  const query = new URLSearchParams({ after: since });
  if (ticks) query.set("ticks", ticks);
  source = new EventSource(`/v1/events?${query}`);
  source.onopen = () => say("live", "good");
  source.onerror = () => {
    say("connecting", "bad");
    if (source?.readyState === EventSource.CLOSED) {
      hush();
      setTimeout(() => (listen(), look()), 1000 + 2000 * Math.random());
    }
  };
  for (const what of WHATS) source.addEventListener(what, heard);
  source.addEventListener("tick", soon);
}

const WHATS = [
  "enqueued", "claimed", "completed", "retrying", "failed", "crashed", "released", "parked", "cancel_requested", "canceled",
  "retried", "made_due", "deleted", "acted",
];

function heard(event) {
  since = event.lastEventId || since;
  const job = main().dataset.job;
  if (job) {
    const { jobs, count } = JSON.parse(event.data);
    // An event names a hundred of its jobs at most.
    if (!jobs.includes(job) && jobs.length === count) return;
  }
  soon();
}

function hush() {
  source?.close();
  source = null;
}

function say(word, sort) {
  const live = document.getElementById("live");
  if (!live) return;
  live.textContent = word;
  live.dataset.uiSort = sort;
}
