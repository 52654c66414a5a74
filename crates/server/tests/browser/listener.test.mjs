// The Listener's page with listeners in every state, on a real MongoDB: by the rules of axe, light and dark, wide and narrow;
// and that it may be worked with while it is redrawn.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openBrowser, openListeners, openPage, violations } from "./house.mjs";

const TOKEN = "canary-3f0b1c9a7d5e4f6d8a2c";
const DOCUMENT = "ada";
const HOSTILE = "<img src=x onerror=alert(1)> 100 % & more";

let browser;
let listeners;
let closed;
before(async () => {
  browser = await openBrowser();
  listeners = await openListeners();
  closed = await openListeners({ token: TOKEN });
  await filled();
});
after(async () => {
  await browser.close();
  await listeners.close();
  await closed.close();
});

/** One that is held, one that is paused, one that is refused; documents that failed, a loss of history, an instance that is gone. */
async function filled() {
  const { run, database } = listeners;
  const add = (id, collection, jobName) => run("add", "--document", JSON.stringify({ _id: id, collection, jobName }));
  await add("held", "people", "greet");
  await add("paused", "orders", "ship");
  await run("pause", "paused");
  const own = database("airank");
  await own.collection("listeners").insertOne({ _id: "refused", collection: "drops", operationType: ["drop"], jobName: "drop", isActive: true });
  await own.collection("listener_dead").insertMany([
    { listener: "held", state: "dead", document: "bob", documentId: "bob", error: "the row was refused: Document failed validation", attempts: 5, at: new Date() },
    { listener: "held", state: "waiting", document: "eve", documentId: "eve", error: "connect ECONNREFUSED 127.0.0.1:3000", attempts: 2, at: new Date() },
  ]);
  const gap = { listener: "held", lane: "held", code: 286, scanned: 120, jobs: 7, at: new Date(), from: new Date(0), to: new Date() };
  await own.collection("listener_gaps").insertMany([
    { ...gap, state: "reconciled", deletes: "unrecoverable" },
    { ...gap, listener: "paused", lane: "paused", state: "open", deletes: "not watched" },
  ]);
  await own.collection("listener_instances").insertOne({ _id: "host-of-yesterday-4711", lanes: 1, lastSeen: new Date(Date.now() - 3_600_000) });
  await own.collection("listeners").insertOne({ _id: "bare", jobName: "bare", database: 5, isActive: true });
  await database("workspace_one").collection("people").insertOne({ _id: DOCUMENT, name: "Ada" });
  const entry = { listener: "held", database: "workspace_one", collection: "people", operationType: "update", instance: "one", jobId: "65a1b2c3d4e5f60718293a4b" };
  const before = (minutes) => new Date(Date.now() - minutes * 60_000);
  await own.collection("listener_history").insertMany([
    { ...entry, document: DOCUMENT, what: "failed", error: HOSTILE, at: before(30) },
    { ...entry, document: DOCUMENT, what: "again", error: null, at: before(20) },
    { ...entry, document: HOSTILE, what: "dead", error: "the row was refused", at: before(10) },
  ]);
}

/** Waits until the page shows the listener as held, its document's job made. */
async function shown(page) {
  await page.goto(`${listeners.url}/listener`);
  await page.locator("#lane-held .word", { hasText: "held" }).waitFor();
  await page.locator("#lane-refused .error").waitFor();
}

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    test(`axe finds nothing, ${colorScheme}, ${width} px`, async () => {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 }, reducedMotion: "reduce" });
      await shown(page);
      for (const word of ["held", "paused", "refused", "dead", "waiting", "open", "reconciled"]) {
        await page.locator(`.word.${word}`).first().waitFor();
      }
      await page.locator("#document").fill(DOCUMENT);
      await page.getByRole("button", { name: "Look" }).click();
      await page.getByRole("table", { name: "Its jobs" }).getByRole("cell", { name: "greet" }).waitFor();
      assert.deepEqual(await violations(page), [], "everything at once");
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(overflow, 0, "nothing is wider than the window");
      if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/listener-${colorScheme}-${width}.png`, fullPage: true });
      assert.deepEqual(page.wrongs, []);
      await page.goto(`${closed.url}/listener`);
      await page.locator("#door:not([hidden])").waitFor();
      assert.deepEqual(await violations(page), [], "the door");
      await page.locator("#token").fill(TOKEN);
      await page.getByRole("button", { name: "Open" }).click();
      await page.locator("#none:not([hidden])").waitFor();
      assert.deepEqual(await violations(page), [], "no listeners");
      await page.context().close();
    });
  }
}

test("what happened to a document is told, whatever it is called and whatever went wrong", async () => {
  const page = await openPage(browser);
  await shown(page);
  await page.locator("#document").fill(DOCUMENT);
  await page.getByRole("button", { name: "Look" }).click();
  const happened = page.getByRole("table", { name: "What happened" });
  await happened.getByRole("row").nth(3).waitFor();
  const cells = async (row) => Object.fromEntries(await happened.getByRole("row").nth(row).getByRole("cell")
    .evaluateAll((cells) => cells.map((cell) => [cell.dataset.head, cell.textContent])));
  const [made, again, failed] = [await cells(1), await cells(2), await cells(3)];
  assert.deepEqual([made.what, again.what, failed.what], ["job made", "done again", "failed"], "the newest first");
  assert.deepEqual([made.change, made.where, made.listener], ["insert", "workspace_one.people", "held"]);
  assert.match(made.job, /^[0-9a-f]{24}$/);
  assert.deepEqual([made.error, failed.error], ["–", HOSTILE], "what went wrong is text");
  const jobs = page.getByRole("table", { name: "Its jobs" });
  assert.equal(await jobs.getByRole("cell", { name: made.job }).count(), 1);
  assert.equal(await jobs.getByRole("cell", { name: "queued" }).count(), 1);
  // It lives: what happens next appears, and the address is that of the document.
  await page.locator("#again").click();
  await page.locator("#said", { hasText: "done again by 1 listener" }).waitFor();
  await happened.getByRole("row").nth(4).waitFor();
  await page.reload();
  await happened.getByRole("row").nth(4).waitFor();
  await page.goto(`${listeners.url}/listener#document=${encodeURIComponent(HOSTILE)}`);
  await page.locator("#answer h3", { hasText: HOSTILE }).waitFor();
  assert.equal(await page.locator("#answer img").count(), 0);
  await page.locator("#dead a", { hasText: "bob" }).click();
  await page.locator("#answer .cards", { hasText: "Document failed validation" }).waitFor();
  await page.locator("#document").fill("nobody");
  await page.getByRole("button", { name: "Look" }).click();
  await page.locator("#answer", { hasText: "nothing is known of document nobody" }).waitFor();
  const wrongs = page.wrongs.filter((wrong) => !wrong.includes("404"));
  assert.deepEqual(wrongs, []);
  await page.context().close();
});

test("a refused listener says what it watches, as far as that can be told", async () => {
  const page = await openPage(browser);
  await shown(page);
  await page.locator("#lane-refused p", { hasText: /^workspace_\*\.drops$/ }).waitFor();
  await page.locator("#lane-bare p", { hasText: "neither databases nor a collection are named" }).waitFor();
  await page.locator("#lane-bare .error", { hasText: "database must be a text" }).waitFor();
  await page.context().close();
});

test("the page is redrawn in place: the focus stays, and only news are told", async () => {
  const page = await openPage(browser);
  await shown(page);
  const pause = page.getByRole("button", { name: "Pause: greet" });
  await pause.focus();
  await page.evaluate(() => {
    globalThis.told = 0;
    new MutationObserver((changes) => (globalThis.told += changes.length)).observe(document.getElementById("state"), { childList: true, subtree: true, characterData: true });
  });
  const drawn = await page.locator("#when").textContent();
  await page.waitForFunction((drawn) => document.getElementById("when").textContent !== drawn, drawn);
  assert.ok(await pause.evaluate((button) => button === document.activeElement), "the focus is where it was");
  assert.equal(await page.evaluate(() => globalThis.told), 0, "nothing has changed, and nothing is told");
  await page.keyboard.press("Enter");
  await page.locator("#lane-held .word", { hasText: "paused" }).waitFor();
  await page.getByRole("button", { name: "Resume: greet" }).click();
  await page.locator("#lane-held .word", { hasText: "held" }).waitFor();
  assert.deepEqual(page.wrongs, []);
  await page.context().close();
});
