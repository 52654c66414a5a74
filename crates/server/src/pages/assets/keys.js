// The keyboard: / search, j k move, enter open, x select, g and a letter go, ? help.

import { count, unselect } from "./many.js";

const PLACES = { o: "/", j: "/jobs", q: "/queues", b: "/budgets", s: "/schedules", w: "/workers", a: "/actions" };
const GO_MS = 1500;

let going = 0;

export function start() {
  document.addEventListener("keydown", pressed);
  document.getElementById("help-open")?.addEventListener("click", help);
  if (location.hash === "#search") search();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape") return leave(event);
  if (document.querySelector("dialog[open]") || typing(event.target)) return;
  const go = Date.now() - going < GO_MS ? PLACES[event.key] : undefined;
  going = event.key === "g" ? Date.now() : 0;
  if (go) return location.assign(go);
  const does = { "/": search, j: () => move(1), k: () => move(-1), x: select, "?": help }[event.key];
  if (does) {
    event.preventDefault();
    does();
  } else if (event.key === "Enter" && !event.target.closest("a, button, summary, input")) {
    current()?.querySelector("a.open, a")?.click();
  }
}

function typing(element) {
  return element.closest("textarea, select") || (element.localName === "input" && element.type !== "checkbox");
}

function search() {
  const field = document.getElementById("search");
  if (field) {
    field.focus();
    field.select();
  } else location.assign("/jobs#search");
}

const rows = () => [...document.querySelectorAll("tr[data-row]")];
const current = () => document.querySelector("tr[data-ui-at]");

function move(by) {
  const all = rows();
  if (!all.length) return;
  const old = all.indexOf(current());
  const next = all[old < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, old + by))];
  current()?.removeAttribute("data-ui-at");
  next.setAttribute("data-ui-at", "");
  next.scrollIntoView({ block: "nearest" });
}

function select() {
  const box = current()?.querySelector("td.pick input");
  if (!box) return;
  box.checked = !box.checked;
  count();
}

function help() {
  document.getElementById("help").showModal();
}

function leave(event) {
  if (document.querySelector("dialog[open]")) return;
  if (typing(event.target)) event.target.blur();
  else if (!unselect()) current()?.removeAttribute("data-ui-at");
}
