// What people do on the pages beside cancel and retry, and what they keep there.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { live, openBrowser, openHouse, openPage } from "./house.mjs";

let browser;
let house;
let page;
before(async () => {
  browser = await openBrowser();
  house = await openHouse();
  page = await openPage(browser);
});
after(async () => {
  assert.deepEqual(page.wrongs, []);
  await browser.close();
  await house.close();
});

// Whoever leaves the page before it is answered takes the question back.
async function yes(name, on = page) {
  const answered = on.waitForResponse((response) => response.request().method() !== "GET");
  await on.locator("#ask").getByRole("button", { name, exact: true }).click();
  await answered;
}

async function ended(id, queue, outcome) {
  const { leases } = await house.call("POST", "/v1/claim", { worker: "w", queues: [queue], limit: 1 });
  const { fence } = leases[0];
  for (const name of ["fetch", "send"]) await house.call("PUT", `/v1/jobs/${id}/steps/${name}`, { fence, output: 1 });
  await house.call("POST", "/v1/leases/settle", { results: [{ job_id: id, fence, ...outcome }] });
}

test("a job is run now, run again from a step, and deleted", async () => {
  const { id } = await house.enqueue({ kind: "later", queue: "one", delay: "1h" });
  await page.goto(`${house.url}/jobs/${id}`);
  await live(page);
  await page.getByRole("button", { name: "Run now" }).click();
  await yes("Run now");
  await page.locator(".life", { hasText: "made due" }).waitFor();
  await ended(id, "one", { outcome: "completed" });
  await page.locator("h1 .state.completed").waitFor();
  await page.getByRole("button", { name: "run again from here" }).last().click();
  await page.locator("#ask", { hasText: "again from send" }).waitFor();
  await yes("run again from here");
  await page.locator("h1 .state.queued").waitFor();
  const { steps } = await house.call("GET", `/v1/jobs/${id}`);
  assert.deepEqual(steps.map(({ name }) => name), ["fetch"]);
  await page.getByRole("button", { name: "Delete" }).click();
  await yes("Delete");
  await page.waitForURL(`${house.url}/jobs`);
  await assert.rejects(house.call("GET", `/v1/jobs/${id}`), /404/);
});

test("many are run now, and deleted", async () => {
  for (let number = 0; number < 3; number++) await house.enqueue({ kind: "bulk", queue: "bulk", delay: "1h" });
  await page.goto(`${house.url}/jobs?queue=bulk`);
  await live(page);
  await page.locator("tr", { hasText: "later" }).first().waitFor();
  await page.locator("#match-all").click();
  await page.locator("[data-many=run]").click();
  await page.locator("#ask", { hasText: "Run 3 jobs?" }).waitFor();
  await yes("Run now");
  await page.waitForFunction(() => !document.querySelector("tbody")?.textContent.includes("later"));
  await page.goto(`${house.url}/jobs?queue=bulk&state=queued`);
  await page.locator("td.pick input").first().check();
  await page.locator("[data-many=delete]").click();
  await page.locator("#ask", { hasText: "Delete 1 job?" }).waitFor();
  await yes("Delete");
  await page.waitForFunction(() => document.querySelectorAll("tr[data-id]").length === 2);
  await page.locator("#match-all").click();
  await page.locator("[data-many=delete]").click();
  await page.locator("#ask", { hasText: "Delete 2 jobs?" }).waitFor();
  await yes("Delete");
  await page.getByText("No job matches").waitFor();
});

test("a group of failures leads to its jobs, and is retried", async () => {
  for (const number of [17, 18]) {
    const { id } = await house.enqueue({ kind: "broken", queue: "broken", retry: { ladder: "none" } });
    await ended(id, "broken", { outcome: "retry", error: `row ${number} is bad` });
  }
  await page.goto(house.url);
  await live(page);
  await page.getByRole("link", { name: "row # is bad" }).click();
  await page.waitForFunction(() => document.querySelectorAll("tr[data-id]").length === 2);
  await page.goto(house.url);
  await page.getByRole("button", { name: "retry", exact: true }).click();
  await yes("retry");
  await page.goto(`${house.url}/jobs?queue=broken&state=queued`);
  await page.waitForFunction(() => document.querySelectorAll("tr[data-id]").length === 2);
});

test("a stretch of time is chosen, and a view is saved and forgotten", async () => {
  await page.goto(`${house.url}/jobs`);
  await live(page);
  await page.getByLabel("Accepted").selectOption("1h");
  await page.waitForURL(/since=1h/);
  await page.getByText("save this view").click();
  await page.locator(".chips input:not([type=hidden])").fill("lately");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("link", { name: "lately" }).waitFor();
  await page.goto(`${house.url}/jobs`);
  await page.getByRole("link", { name: "lately" }).click();
  await page.waitForURL(/since=1h/);
  await page.getByRole("button", { name: "forget this view" }).click();
  await yes("forget this view");
  await page.getByRole("link", { name: "lately" }).waitFor({ state: "detached" });
});

test("queues and budgets are deleted, and a cool-down is ended", async () => {
  await house.call("PUT", "/v1/queues/spare", { limit: 1 });
  await page.goto(`${house.url}/queues`);
  await live(page);
  await page.locator("#q-spare").getByRole("button", { name: "Delete" }).click();
  await yes("Delete");
  await page.locator("#q-spare").waitFor({ state: "detached" });
  await house.call("PUT", "/v1/budgets/etsy", { slots: 1 });
  await house.call("POST", "/v1/budgets/etsy/cool-down", { for: "5m" });
  await page.goto(`${house.url}/budgets`);
  await live(page);
  await page.getByRole("button", { name: "End cool-down" }).click();
  await page.locator("#b-etsy", { hasText: "cooling" }).waitFor({ state: "detached" });
  await page.locator("#b-etsy").getByRole("button", { name: "Delete" }).click();
  await yes("Delete");
  await page.locator("#b-etsy").waitFor({ state: "detached" });
});

test("a schedule is deleted on its own page, which leads back to the others", async () => {
  await house.call("PUT", "/v1/schedules/nightly", { cron: "0 3 * * *", job: { kind: "report" } });
  await page.goto(`${house.url}/schedules/nightly`);
  await live(page);
  await page.getByRole("button", { name: "Delete" }).click();
  await yes("Delete");
  await page.waitForURL(`${house.url}/schedules`);
});

test("whoever points at a chart is told its numbers, and who did what is listed", async () => {
  await page.goto(house.url);
  await live(page);
  const said = await page.locator(".plot .column title").first().textContent();
  assert.match(said, /ago\n.* \d/);
  await page.goto(`${house.url}/actions`);
  await page.locator("tr", { hasText: "delete budget" }).waitFor();
});

/** A page as over plain http from another machine: there is no clipboard. */
async function withoutClipboard() {
  const other = await openPage(browser);
  await other.addInitScript(() => Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined }));
  return other;
}

const selected = (where) => where.evaluate(() => getSelection().toString());

test("without a clipboard, what would be copied is selected wherever it stands, or shown", async () => {
  const { id } = await house.enqueue({ kind: "torn", queue: "torn", retry: { ladder: "none" } });
  await ended(id, "torn", { outcome: "retry", error: "the wire is torn" });
  // A live worker of the queue that does not know the kind: that is a trouble at once.
  await house.call("POST", "/v1/claim", { worker: "picky", queues: ["odd"], kinds: ["other"], limit: 1 });
  await house.enqueue({ kind: "odd", queue: "odd" });
  const other = await withoutClipboard();
  await other.goto(`${house.url}/jobs/${id}`);
  await live(other);
  await other.locator(".head").getByRole("button", { name: "Copy" }).click();
  assert.equal(await selected(other), id);

  await other.goto(house.url);
  await live(other);
  const trouble = other.locator(".troubles .command").first();
  const command = await trouble.locator("code").textContent();
  await trouble.getByRole("button", { name: "Copy" }).click();
  assert.equal(await selected(other), command);

  await other.locator("tr", { hasText: "the wire is torn" }).getByRole("button", { name: "copy as a command" }).click();
  const dialog = other.locator("#ask[open]");
  await dialog.waitFor();
  const shown = "windlass retry --state failed --error 'the wire is torn'";
  assert.equal(await dialog.locator("pre").textContent(), shown);
  assert.equal(await selected(other), shown);
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ state: "hidden" });
  assert.deepEqual(other.wrongs, []);
  await other.context().close();
});

test("what a run says is seen while it runs", async () => {
  const { id } = await house.enqueue({ kind: "talk", queue: "talk" });
  const { leases } = await house.call("POST", "/v1/claim", { worker: "w", queues: ["talk"], limit: 1 });
  const say = (text) => house.call("PUT", `/v1/jobs/${id}/log`, { fence: leases[0].fence, text });
  await say("the first line\n");
  await page.goto(`${house.url}/jobs/${id}`);
  await live(page);
  const output = page.locator("#output pre");
  assert.equal(await output.textContent(), "the first line\n");
  await page.evaluate(() => (window.before = true));
  await say("the first line\nthe second line\n");
  await page.locator("#output pre", { hasText: "the second line" }).waitFor();
  assert.equal(await page.evaluate(() => window.before), true, "without a reload");
});

test("a new job is enqueued with what its kind had last, and once more with an edit", async () => {
  await house.enqueue({ kind: "letter", queue: "post", payload: { to: "Ada" } });
  await page.goto(`${house.url}/jobs?queue=post`);
  await live(page);
  await page.locator("details.new summary", { hasText: "New job" }).click();
  const form = page.locator("details.new form");
  await form.locator("[name=kind]").fill("letter");
  await form.locator("[name=kind]").blur();
  assert.equal(await form.locator("[name=queue]").inputValue(), "post");
  assert.deepEqual(JSON.parse(await form.locator("[name=payload]").inputValue()), { to: "Ada" });
  await form.locator("[name=priority]").fill("7");
  await form.getByRole("button", { name: "Enqueue" }).click();
  await page.waitForFunction(() => document.querySelectorAll("tr[data-id]").length === 2);
  const { jobs: [made] } = await house.call("GET", "/v1/jobs?queue=post&limit=1");
  const first = await house.call("GET", `/v1/jobs/${made.id}`);
  assert.deepEqual([first.kind, first.priority, first.payload], ["letter", 7, { to: "Ada" }]);

  await page.goto(`${house.url}/jobs/${made.id}`);
  await live(page);
  await page.getByText("Enqueue again …").click();
  const again = page.locator("details.edit form");
  assert.equal(await again.locator("[name=priority]").inputValue(), "7");
  await again.locator("[name=payload]").fill(`{"to": "Grace", "number": 9007199254740993}`);
  await again.getByRole("button", { name: "Enqueue" }).click();
  await page.locator("#said", { hasText: "Enqueued as a new job" }).waitFor();
  const { jobs } = await house.call("GET", "/v1/jobs?queue=post");
  assert.equal(jobs.length, 3);
  const raw = await (await fetch(`${house.url}/v1/jobs/${jobs[0].id}`)).text();
  assert.match(raw, /"to": ?"Grace"/);
  assert.match(raw, /9007199254740993/, "a number of 64 bits is sent as it was typed");
  assert.equal(jobs[0].priority, 7);
});

test("a schedule is edited where it stands", async () => {
  const job = { kind: "report", queue: "reports", payload: { size: 1 } };
  await house.call("PUT", "/v1/schedules/weekly", { cron: "0 3 * * 1", zone: "Europe/Berlin", job });
  await page.goto(`${house.url}/schedules`);
  await live(page);
  const row = page.locator("#s-weekly");
  await row.getByText("Edit").click();
  await row.locator("[name=cron]").fill("30 4 * * 1");
  await row.locator("[name=overlap]").selectOption("queue");
  await row.getByRole("button", { name: "Set" }).click();
  await page.locator("#s-weekly code", { hasText: "30 4 * * 1" }).waitFor();
  const { schedules } = await house.call("GET", "/v1/schedules");
  const weekly = schedules.find(({ name }) => name === "weekly");
  assert.deepEqual([weekly.cron, weekly.zone, weekly.overlap], ["30 4 * * 1", "Europe/Berlin", "queue"]);
  assert.deepEqual([weekly.job.kind, weekly.job.queue, weekly.job.payload], [job.kind, job.queue, job.payload], "the rest stays");
  await house.call("DELETE", "/v1/schedules/weekly");
});

test("a group of failures is copied as a command, and canceled", async () => {
  const { id } = await house.enqueue({ kind: "stuck", queue: "stuck", retry: { ladder: "1h" } });
  await ended(id, "stuck", { outcome: "retry", error: "it's stuck" });
  const other = await openPage(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  await other.goto(house.url);
  await live(other);
  const row = other.locator("tr", { hasText: "it's stuck" });
  await row.getByRole("button", { name: "copy as a command" }).click();
  await other.locator("#said", { hasText: "Copied" }).waitFor();
  assert.equal(await other.evaluate(() => navigator.clipboard.readText()), String.raw`windlass retry --state failed --error 'it'\''s stuck'`);
  await row.getByRole("button", { name: "cancel", exact: true }).click();
  await yes("cancel", other);
  await other.goto(`${house.url}/jobs/${id}`);
  await other.locator("h1 .state.canceled").waitFor();
  assert.deepEqual(other.wrongs, []);
  await other.context().close();
});

test("a queue that was forgotten in its pause is resumed from the overview", async () => {
  // Due for long: that is a trouble at once.
  const run_at = new Date(Date.now() - 600_000).toISOString();
  await house.enqueue({ kind: "held", queue: "held", run_at });
  await house.call("POST", "/v1/queues/held/pause");
  await page.goto(house.url);
  await live(page);
  const trouble = page.locator(".troubles .why", { hasText: "The queue held has 1 job" });
  await trouble.getByText("it is paused").waitFor();
  await trouble.getByRole("button", { name: "Resume" }).click();
  await page.locator("#said", { hasText: "Done" }).waitFor();
  const { queues } = await house.call("GET", "/v1/queues");
  assert.equal(queues.find(({ name }) => name === "held").paused, false);
});

test("what waits is told by reason", async () => {
  await house.call("POST", "/v1/queues/gate/pause");
  for (let number = 0; number < 3; number++) await house.enqueue({ kind: "passage", queue: "gate" });
  await page.goto(house.url);
  await live(page);
  await page.getByRole("link", { name: "why?" }).click();
  await page.waitForURL(`${house.url}/waiting`);
  const row = page.locator("tr", { hasText: "for the queue gate, which is paused" });
  await row.waitFor();
  assert.equal(await row.locator("td.num").first().textContent(), "3");
  await row.getByRole("link", { name: "which is paused" }).click();
  await page.waitForURL(`${house.url}/jobs?state=queued&queue=gate`);
  assert.equal(await page.locator("tr[data-id]").count(), 3);
});

test("charts go back as far as is chosen", async () => {
  await page.goto(house.url);
  await live(page);
  await page.getByText("Throughput, jobs per second").waitFor();
  for (const span of ["1h", "6h", "24h"]) {
    await page.locator(".spans").getByRole("link", { name: span, exact: true }).click();
    await page.waitForURL(`${house.url}/?span=${span}`);
    await page.locator(".spans [aria-current=true]", { hasText: span }).waitFor();
    await page.getByText("Jobs per minute").waitFor();
  }
  await page.locator(".spans").getByRole("link", { name: "15m" }).click();
  await page.getByText("Throughput, jobs per second").waitFor();
});
