// The list of jobs: search as you type, select rows or all that match, and act
// on these, after a look at how many that is.

import { call, confirm, make, said } from "./ask.js";
import { look, show } from "./live.js";

const LAST_STATES = ["completed", "failed", "canceled"];
/** What each verb is for: the states it fits, those that are meant when none is said, and its words. */
const VERBS = {
  cancel: { fit: ["queued", "running"], meant: ["queued", "running"], past: "canceled", going: "Canceling", title: "Cancel", yes: "Cancel" },
  retry: { fit: LAST_STATES, meant: ["failed"], past: "retried", going: "Retrying", title: "Retry", yes: "Retry" },
  run: { fit: ["queued"], meant: ["queued"], past: "made due", going: "Making due", title: "Run", yes: "Run now" },
  delete: { fit: ["queued", ...LAST_STATES], meant: LAST_STATES, past: "deleted", going: "Deleting", title: "Delete", yes: "Delete" },
};
/** How many calls for selected jobs are under way at once. */
const AT_ONCE = 8;
const TYPING_MS = 250;

export function start() {
  count();
  document.addEventListener("change", changed);
  document.addEventListener("windlass:shown", count);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-many]");
    if (button) act(button.dataset.many);
    if (event.target.closest("#match-all")) matchAll();
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "filters") return;
    event.preventDefault();
    find(false);
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("#filters select")) find(false);
  });
  let typing = 0;
  document.addEventListener("input", (event) => {
    if (event.target.id !== "search") return;
    clearTimeout(typing);
    typing = setTimeout(() => find(true), TYPING_MS);
  });
}

/** Puts what the form says into the address, and shows that. */
function find(replace) {
  const form = document.getElementById("filters");
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) query.set(name, value.trim());
  const text = query.toString().replaceAll("%2C", ",");
  show(text ? `/jobs?${text}` : "/jobs", { replace });
}

const boxes = () => [...document.querySelectorAll("td.pick input")];
const rows = () => boxes().filter((box) => box.checked).map((box) => box.closest("tr"));

const bar = () => document.getElementById("actions");
/** Whether all that match are meant, on this page and on those behind it. */
const isAll = () => bar()?.dataset.uiAll !== undefined;

function changed(event) {
  if (event.target.id !== "select-all" && !event.target.closest("td.pick")) return;
  if (event.target.id === "select-all") for (const box of boxes()) box.checked = event.target.checked;
  delete bar().dataset.uiAll;
  count();
}

function matchAll() {
  for (const box of boxes()) box.checked = true;
  bar().dataset.uiAll = "";
  count();
}

/** Says what the buttons would act on. */
export function count() {
  const line = document.getElementById("selected");
  if (!line) return;
  const all = isAll();
  // Rows that have come since are among all that match.
  if (all) for (const box of boxes()) box.checked = true;
  const chosen = rows();
  for (const box of boxes()) box.closest("tr").toggleAttribute("data-ui-selected", box.checked);
  line.textContent = all ? "all that match" : chosen.length ? `${chosen.length} selected` : `select the ${boxes().length} shown`;
  document.getElementById("select-all").checked = chosen.length > 0 && chosen.length === boxes().length;
  document.getElementById("match-all").hidden = all;
  for (const button of document.querySelectorAll("[data-many]")) button.disabled = !all && !chosen.length;
}

/** Selects nothing; false when nothing was selected. */
export function unselect() {
  const some = isAll() || rows().length > 0;
  for (const box of boxes()) box.checked = false;
  if (bar()) delete bar().dataset.uiAll;
  count();
  return some;
}

function act(verb) {
  return isAll() ? actOnAll(verb) : actOnSelected(verb, rows());
}

async function actOnSelected(verb, chosen) {
  const { fit: states, past, title, yes } = VERBS[verb];
  const fitting = chosen.filter((row) => states.includes(row.dataset.state));
  if (!fitting.length) return said(`None of them can be ${past}: they are not ${states.join(" or ")}`, "bad");
  const list = make("ul", { class: "sample" }, ...fitting.slice(0, 10).map((row) => make("li", {}, named(row))));
  const rest = fitting.length > 10 ? [make("p", {}, `and ${fitting.length - 10} more`)] : [];
  const left = chosen.length - fitting.length;
  if (left) rest.push(make("p", {}, `${left} of the selected stay as they are: not ${states.join(" or ")}.`));
  if (!(await confirm(`${title} ${jobs(fitting.length)}?`, [list, ...rest], yes))) return;
  const ids = fitting.map((row) => row.dataset.id);
  let done = 0;
  let refused = 0;
  const go = async () => {
    for (let id = ids.pop(); id; id = ids.pop()) {
      const asked = verb === "delete" ? call("DELETE", `/v1/jobs/${id}`) : call("POST", `/v1/jobs/${id}/${verb}`);
      await asked.then(() => done++, () => refused++);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, go));
  said(`${jobs(done)} ${past}${refused ? `, ${refused} refused` : ""}`, refused ? "bad" : "good");
  unselect();
  await look({ all: true });
}

/** All that match the address: first counted, then done in the background of the server. */
async function actOnAll(verb) {
  const filter = filterOf(verb);
  try {
    const dry = await call("POST", `/v1/jobs/${verb}`, { filter, dry_run: true });
    if (!dry.matched) return said(`No job that matches is ${filter.state.join(" or ")}`, "bad");
    const number = `${jobs(dry.matched)}${dry.capped ? " or more" : ""}`;
    const pace = make("input", { type: "number", min: "1", max: "10000", value: "100", "aria-label": "Jobs per second" });
    const body = [
      make("p", {}, `${number} that ${dry.matched === 1 ? "matches is" : "match are"} ${filter.state.join(" or ")}. The newest:`),
      make("ul", { class: "sample" }, ...dry.sample.map((id) => make("li", {}, make("a", { href: `/jobs/${id}` }, id)))),
      make("label", {}, pace, " jobs per second"),
    ];
    if (!(await confirm(`${VERBS[verb].title} ${number}?`, body, VERBS[verb].yes))) return;
    await call("POST", `/v1/jobs/${verb}`, { filter, pace: Number(pace.value) || 100 });
    said(`${VERBS[verb].going} ${number}`);
    unselect();
  } catch (error) {
    said(error.message, "bad");
  }
  await look({ all: true });
}

/** The filter of the page, held to the states that the verb is for. */
function filterOf(verb) {
  const filter = JSON.parse(bar().dataset.filter);
  const query = new URLSearchParams(location.search);
  const asked = query.getAll("state").flatMap((states) => states.split(",")).filter(Boolean);
  const { fit, meant } = VERBS[verb];
  const chosen = asked.filter((state) => fit.includes(state));
  filter.state = chosen.length ? chosen : meant;
  return filter;
}

const jobs = (count) => `${count.toLocaleString("en")} ${count === 1 ? "job" : "jobs"}`;
const named = (row) => `${row.querySelector(".kind").textContent} ${row.dataset.id}`;
