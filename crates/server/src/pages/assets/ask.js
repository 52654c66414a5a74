// Asks before something is done, and says what came of it.

/** Makes an element. Children are elements or text; text is never HTML. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Asks; true when the answer is yes. `body` are elements to show, `yes` names the button. */
export function confirm(title, body, yes) {
  const dialog = document.getElementById("ask");
  const go = make("button", { class: "main", value: "yes" }, yes);
  const form = make("form", { method: "dialog" }, go, make("button", { value: "no" }, "Keep as it is"));
  dialog.replaceChildren(make("h2", {}, title), ...body, form);
  dialog.returnValue = "no";
  dialog.showModal();
  go.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Shows a text that stands nowhere on the page; gives its element. */
export function show(title, text) {
  const dialog = document.getElementById("ask");
  const shown = make("pre", { tabindex: "0" }, text);
  const form = make("form", { method: "dialog" }, make("button", { value: "no" }, "Close"));
  dialog.replaceChildren(make("h2", {}, title), shown, form);
  dialog.showModal();
  return shown;
}

let fading = 0;

/** Says something at the edge of the page for a while. */
export function said(text, sort = "good") {
  const line = document.getElementById("said");
  line.textContent = text;
  line.dataset.uiSort = sort;
  clearTimeout(fading);
  fading = setTimeout(() => line.replaceChildren(), sort === "bad" ? 8000 : 4000);
}

/** Calls the API, with a body that is JSON already or becomes it; an error that says what went wrong when it refuses. */
export async function call(method, path, body) {
  const headers = { "x-windlass-csrf": "1" };
  if (body !== undefined) headers["content-type"] = "application/json";
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: sent });
  } catch {
    throw new Error("The server did not answer; whether anything changed is unknown");
  }
  if (answer.status === 401) location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  const text = await answer.text();
  const json = text ? JSON.parse(text) : null;
  if (!answer.ok) throw new Error(json?.error?.message ?? `The server answered ${answer.status}`);
  return json;
}
