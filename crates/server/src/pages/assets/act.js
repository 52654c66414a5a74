// Buttons and forms that call the API: data-post, data-put or data-delete is
// the path, data-ask the question before, data-said the word after.

import { call, confirm, make, said, show } from "./ask.js";
import { leave, look } from "./live.js";

const METHODS = { post: "POST", put: "PUT", delete: "DELETE" };

export function start() {
  document.addEventListener("click", clicked);
  document.addEventListener("submit", submitted);
  document.addEventListener("change", suggest);
}

/** The last payload and queue of the kind that was chosen, where nothing was typed yet. */
function suggest(event) {
  const { form, list, value } = event.target;
  const known = [...(list?.options ?? [])].find((option) => option.value === value);
  for (const name of ["payload", "queue"]) {
    const field = form?.elements[name];
    if (known && field && !field.value.trim() && known.dataset[name] !== undefined) field.value = known.dataset[name];
  }
}

async function clicked(event) {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copy !== undefined) return copy(button);
  if (button.id === "sign-out") {
    await call("POST", "/sign-out").catch(() => {});
    return location.assign("/sign-in");
  }
  if (target(button)) await act(button, button.dataset.body);
}

async function submitted(event) {
  const form = event.target;
  if (!target(form)) return;
  event.preventDefault();
  const [body, names] = read(form);
  if (body) await act(form, body, names);
}

function target(element) {
  return Object.keys(METHODS).find((method) => element.dataset[method] !== undefined);
}

async function act(element, body, names = {}) {
  const method = target(element);
  const path = element.dataset[method].replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(names[name]));
  const question = element.dataset.ask;
  const yes = (element.localName === "form" ? element.querySelector("button") : element).textContent;
  if (question && !(await confirm(question, [make("p", {}, element.dataset.more ?? "")], yes))) return;
  leave(element.dataset.then !== undefined);
  try {
    const answer = await call(METHODS[method], path, body);
    const isThere = answer?.deduplicated === true;
    said(isThere ? "A job with this dedupe key is not over yet: nothing was enqueued" : (element.dataset.said ?? "Done"));
    element.closest("details")?.removeAttribute("open");
    if (element.dataset.then) return location.assign(element.dataset.then);
  } catch (error) {
    said(error.message, "bad");
    leave(false);
  }
  await look({ all: true });
}

/**
 * The fields of a form as the API wants them; those that are empty are left
 * out. JSON that was typed is sent as it was typed: numbers of 64 bits would
 * not survive being read here.
 */
function read(form) {
  const parts = [];
  const names = {};
  for (const field of form.elements) {
    const text = field.value?.trim();
    if (!field.name || !text) continue;
    if (field.name.startsWith("{")) names[field.name.slice(1, -1)] = text;
    else
      try {
        parts.push(`${JSON.stringify(field.name)}: ${written(field.dataset.sort, text)}`);
      } catch {
        said(`${field.name} is not ${field.dataset.sort === "json" ? "JSON" : "a number"}`, "bad");
        field.focus();
        return [null];
      }
  }
  return [`{${parts.join(", ")}}`, names];
}

function written(sort, text) {
  if (sort === "json") {
    JSON.parse(text);
    return text;
  }
  if (sort === "int") {
    if (!/^-?(0|[1-9]\d*)$/.test(text)) throw new Error("no number");
    return text;
  }
  return text === "true" || text === "false" ? text : JSON.stringify(text);
}

async function copy(button) {
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
    said("Copied");
  } catch {
    // Without https only this machine may write to the clipboard: select it instead.
    const beside = button.parentElement.querySelector("pre, code, .id");
    getSelection().selectAllChildren(beside ?? show("To be copied with the keyboard", text));
    said("Selected; copy it with the keyboard");
  }
}
