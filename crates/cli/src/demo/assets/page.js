// Asks how everybody does, once a second, and changes only what differs.

const EVERY_MS = 1000;
const place = (id) => document.getElementById(id);

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function worker({ name, about, link, pid, starts, answers, facts }) {
  const state = answers ? make("span", { class: "up" }, "● running") : make("span", { class: "down" }, pid ? "○ starting" : "○ ended");
  const figures = facts.flatMap(([what, value]) => [make("dt", {}, what), make("dd", {}, value)]);
  const process = pid ? `process ${pid}${starts > 1 ? `, started ${starts} times` : ""}` : "no process";
  return make("li", {},
    make("div", { class: "head" }, make("h3", {}, make("a", { href: link }, name)), state),
    make("p", { class: "about" }, about),
    make("dl", {}, ...figures, make("dt", {}, "runs as"), make("dd", {}, process)));
}

function absent({ name, why }) {
  return make("li", { class: "none" }, make("h3", {}, name), make("p", {}, why));
}

function provider({ name, about, open }) {
  const button = make("button", { type: "button", "data-provider": name, "data-way": open ? "off" : "on" }, open ? "Cut off" : "Let back in");
  const state = make("span", { class: open ? "up" : "down" }, open ? "● there" : "○ cut off");
  return make("li", {}, make("b", {}, name), make("span", { class: "about" }, about), state, button);
}

/** Only what differs, so that a link can be clicked and a command selected in peace. */
function show(list, items) {
  items.forEach((item, at) => {
    const old = list.children[at];
    if (!old) list.append(item);
    else if (old.outerHTML !== item.outerHTML) old.replaceWith(item);
  });
  while (list.children.length > items.length) list.lastElementChild.remove();
}

async function look() {
  try {
    const answer = await fetch("/demo/state");
    const { workers, absent: missing, providers, tries } = await answer.json();
    show(place("workers"), [...workers.map(worker), ...missing.map(absent)]);
    show(place("providers"), providers.map(provider));
    show(place("tries"), tries.map(([what, command]) => make("li", {}, what, make("code", {}, command))));
    const away = workers.filter(({ answers }) => !answers).length;
    place("state").textContent = away ? `${away} of ${workers.length} programs do not answer yet` : `${workers.length} programs are running`;
  } catch {
    place("state").textContent = "The demo does not answer; has it ended?";
  }
  setTimeout(look, EVERY_MS);
}

document.addEventListener("click", async (event) => {
  const { provider, way } = event.target.dataset ?? {};
  if (provider) await fetch(`/demo/providers/${provider}/${way}`, { method: "POST" }).catch(() => {});
});

look();
