// Holds a list still while somebody is at it: with the pointer over its rows, or with the focus in one of them, no row
// comes, goes or moves. What a row says is still kept up to date, and a button tells how many wait and lets them in.

let over = null;
/** Where the pointer was seen last. */
let last = "";
/** Whether something waits to be let in. */
let waiting = false;

/** `look` asks for the page anew; with `all` nothing is held back. */
export function start(look) {
  const left = () => waiting && !held() && look({ all: true });
  document.addEventListener("pointermove", (event) => {
    // A page that moves under a pointer at rest says so as well: whoever has not moved is not at the list.
    const place = `${event.screenX} ${event.screenY}`;
    if (event.pointerType === "touch" || place === last) return;
    last = place;
    over = bodyOf(event.target);
    left();
  });
  document.documentElement.addEventListener("pointerleave", () => {
    over = null;
    left();
  });
  document.addEventListener("focusout", () => setTimeout(left));
  button()?.addEventListener("click", () => look({ all: true }));
}

/** Changes `fresh`, the part to show next, so that a list that is held keeps its rows. False: nothing of it may be shown yet. */
export function hold(main, fresh) {
  const body = held();
  if (!body) return release();
  const twin = twinOf(body, main, fresh);
  if (!twin) return !say(0, 0, true);
  const old = [...body.rows];
  if (old.some((row) => !row.id)) {
    // Nobody can say which of these rows is which.
    const isSame = body.textContent === twin.textContent;
    twin.replaceChildren(...old.map((row) => document.importNode(row, true)));
    return say(0, 0, !isSame);
  }
  const known = new Set(old.map((row) => row.id));
  const wanted = new Map([...twin.rows].map((row) => [row.id, row]));
  const come = [...wanted.keys()].filter((id) => !known.has(id)).length;
  for (const row of old) row.toggleAttribute("data-ui-gone", !wanted.has(row.id));
  const gone = old.filter((row) => !wanted.has(row.id)).length;
  twin.replaceChildren(...old.map((row) => wanted.get(row.id) ?? document.importNode(row, true)));
  return say(come, gone, come + gone > 0);
}

/** Holds nothing back: what comes next shows all of it. */
export function release() {
  for (const row of document.querySelectorAll("tr[data-ui-gone]")) delete row.dataset.uiGone;
  return say(0, 0, false);
}

/** Shows what `change` does to the page, and lets no row move away from under the pointer. */
export function anchored(change) {
  const row = held()?.querySelector("tr:hover, tr:focus-within");
  const top = row?.getBoundingClientRect().top;
  change();
  if (row?.isConnected) scrollBy(0, row.getBoundingClientRect().top - top);
}

/** The list that a node is in: a table whose rows are things of their own, and not the life of one job. */
const bodyOf = (node) => node instanceof Element ? node.closest("#main table.rows > tbody:has(> tr[data-row])") : null;

function held() {
  if (over?.isConnected) return over;
  // A button keeps the focus that a click gave it, long after the pointer has left: only who moves by keys is at a row.
  const at = document.activeElement;
  return at?.matches(":focus-visible") ? bodyOf(at) : null;
}

/** The same list of the fresh part: the one at the same place, with the same columns. */
function twinOf(body, main, fresh) {
  const at = [...main.querySelectorAll("table.rows")].indexOf(body.parentElement);
  const twin = fresh.querySelectorAll("table.rows")[at];
  const head = (table) => table.tHead?.textContent;
  return twin && head(twin) === head(body.parentElement) ? twin.tBodies[0] : null;
}

const button = () => document.getElementById("held");

function say(come, gone, some) {
  waiting = some;
  const counts = [come && `${come} new`, gone && `${gone} gone`].filter(Boolean).join(", ");
  const text = `${counts || "changed"}: show`;
  if (button().textContent !== text) button().textContent = text;
  button().hidden = !some;
  return true;
}
