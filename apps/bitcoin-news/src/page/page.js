// The feed as a person wants it. Everything that is shown is text of strangers: it only ever becomes text.

"use strict";

const PAGE = 25;
const LOOK_MS = 30_000;
const WORDS = { positive: "▲ Positive", negative: "▼ Negative", neutral: "● Neutral", unknown: "○ Unknown" };

const at = (id) => document.getElementById(id);
const [list, state, more, form, search, fresh] = ["articles", "state", "more", "filter", "search", "news"].map(at);

let wish = fromAddress();
let next = null;
let asked = 0;
let etag = null;
/** How many articles there are of all sentiments, once that is known. */
let total = null;

/** What is wanted, as the address says; so that a view can be kept and sent on. */
function fromAddress() {
  const params = new URLSearchParams(location.search);
  const sentiment = params.get("sentiment");
  return { sentiment: WORDS[sentiment] ? sentiment : "", q: (params.get("q") ?? "").slice(0, 200) };
}

function toAddress() {
  const params = new URLSearchParams(Object.entries(wish).filter(([, value]) => value));
  const query = params.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

function address(cursor) {
  const params = new URLSearchParams({ limit: PAGE });
  for (const [name, value] of Object.entries({ ...wish, cursor })) if (value) params.set(name, value);
  return `/api/bitcoin-news?${params}`;
}

/** Loads the first page, or the next one. An answer that another wish has overtaken is thrown away. */
async function load(cursor) {
  const mine = ++asked;
  more.disabled = true;
  list.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address(cursor), { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const body = await answer.json();
    if (mine !== asked) return;
    if (!cursor) {
      list.replaceChildren();
      etag = answer.headers.get("etag");
      fresh.hidden = true;
    }
    if (wish.sentiment && total === null) {
      const all = await fetch(`/api/bitcoin-news?${new URLSearchParams({ limit: 1, q: wish.q })}`);
      if (all.ok) total = (await all.json()).totalArticles;
      if (mine !== asked) return;
    }
    list.append(...body.articles.map(card));
    next = body.nextCursor ?? null;
    tell(body);
  } catch (error) {
    if (mine === asked) trouble(cursor, error);
  } finally {
    if (mine === asked) {
      list.setAttribute("aria-busy", "false");
      more.disabled = false;
    }
  }
}

function tell(body) {
  const shown = list.childElementCount;
  const counts = body.sentimentCounts;
  const known = counts.positive + counts.negative + counts.neutral;
  // What a filter leaves over says nothing about the rest, so all is known only without one.
  if (!wish.sentiment) total = body.totalArticles;
  const all = { all: total, ...counts, unknown: total === null ? null : total - known };
  for (const [name, count] of Object.entries(all)) {
    document.querySelector(`[data-count="${name}"]`).textContent = count ?? "";
  }
  more.hidden = !next;
  state.replaceChildren();
  state.hidden = shown > 0;
  if (!shown) state.textContent = wish.q || wish.sentiment ? "Nothing fits. Try other words or another sentiment." : "No news yet. They appear here as soon as the updater has found some.";
  at("shown").textContent = shown ? `Showing ${shown} of ${body.totalArticles}` : "";
  const changed = body.lastUpdatedExternal;
  at("updated").replaceChildren(...(changed ? ["Updated ", moment(changed)] : []));
}

function trouble(cursor, error) {
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => load(cursor));
  state.hidden = false;
  state.replaceChildren(`The news could not be loaded (${error.message}). `, again);
}

function card(article) {
  const node = at("card").content.firstElementChild.cloneNode(true);
  const find = (selector) => node.querySelector(selector);
  node.dataset.id = article.id;
  const time = published(article);
  if (!Number.isNaN(time)) node.dataset.at = time;
  const sentiment = WORDS[article.sentiment] ? article.sentiment : "unknown";
  const badge = find(".badge");
  badge.classList.add(sentiment);
  badge.textContent = WORDS[sentiment];
  find(".working").hidden = article.status !== "processing";
  find("h2").append(linked(article.title, article.link));
  if (article.aiSummary) {
    find(".summary").hidden = false;
    find(".summary p").textContent = article.aiSummary;
  }
  find(".description").textContent = article.description ?? "";
  find(".description").hidden = !article.description;
  find(".source").append(linked(article.source_name || "Unknown source", article.source_url));
  const icon = find("img");
  if (isWeb(article.source_icon)) {
    icon.addEventListener("error", () => icon.remove());
    icon.src = article.source_icon;
    icon.hidden = false;
  }
  find("time").replaceWith(moment(time));
  return node;
}

/** Text, as a link where there is an address of the web. */
function linked(text, href) {
  if (!isWeb(href)) return document.createTextNode(text);
  const link = document.createElement("a");
  Object.assign(link, { href, textContent: text, target: "_blank", rel: "noopener noreferrer" });
  return link;
}

function isWeb(href) {
  return typeof href === "string" && /^https?:\/\//.test(href);
}

/** A time without a zone is UTC. */
function published(article) {
  const text = article.pubDate ?? "";
  const plain = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?$/.test(text);
  return Date.parse(plain ? `${text.replace(" ", "T")}Z` : text);
}

/** A moment as its distance from now, with the exact one for whoever points at it. */
function moment(ms) {
  const time = document.createElement("time");
  if (Number.isNaN(ms)) return time;
  const exact = new Date(ms);
  time.dateTime = exact.toISOString();
  time.title = exact.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
  time.textContent = distance(ms);
  return time;
}

function distance(ms) {
  const minutes = Math.max(0, Math.round((Date.now() - ms) / 60_000));
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h ago`;
  return `${Math.round(minutes / 1440)} d ago`;
}

/** Whether a card stands behind a place in the feed: the order is by time and then by id, both from the other end. */
function isBehind(node, place) {
  const [mine, theirs] = [Number(node.dataset.at), Number(place.at)];
  return mine < theirs || (mine === theirs && node.dataset.id < place.id);
}

/** Takes away what the first page would show and does not any more. Of what stands behind that page nothing is known. */
function removeGone(body) {
  const named = new Set(body.articles.map((article) => article.id));
  const [, at, id] = body.nextCursor?.match(/^(-?\d+)~(.+)$/) ?? [];
  const isBeyond = (node) => at !== undefined && (!node.dataset.at || isBehind(node, { at, id }));
  [...list.children].filter((node) => !named.has(node.dataset.id) && !isBeyond(node)).forEach((node) => node.remove());
}

/** What has changed is shown where it stands; new articles wait until they are asked for, so that nothing jumps. */
async function look() {
  document.querySelectorAll("time[datetime]").forEach((time) => {
    time.textContent = distance(Date.parse(time.dateTime));
  });
  if (document.hidden) return;
  const mine = asked;
  try {
    const answer = await fetch(address(), { headers: etag ? { "if-none-match": etag } : {} });
    if (answer.status !== 200 || mine !== asked) return;
    const body = await answer.json();
    if (mine !== asked) return;
    etag = answer.headers.get("etag");
    const there = new Map([...list.children].map((node) => [node.dataset.id, node]));
    body.articles.forEach((article) => there.get(article.id)?.replaceWith(card(article)));
    const last = list.lastElementChild;
    const isNew = (article) => !there.has(article.id) && !(last && isBehind(card(article), last.dataset));
    fresh.hidden = !body.articles.some(isNew);
    removeGone(body);
    if (!list.childElementCount && body.articles.length) load();
    else tell({ ...body, nextCursor: next });
  } catch {
    // The next look may go better; what is shown stays.
  }
}

let typing;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", (event) => {
  if (event.target.name !== "sentiment") return;
  wish = { ...wish, sentiment: event.target.value };
  toAddress();
  load();
});
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    wish = { ...wish, q: search.value.trim() };
    total = null;
    toAddress();
    load();
  }, 200);
});
more.addEventListener("click", () => load(next));
fresh.addEventListener("click", () => {
  scrollTo({ top: 0 });
  load();
});

search.value = wish.q;
form.elements.sentiment.value = wish.sentiment;
load();
setInterval(look, LOOK_MS);
