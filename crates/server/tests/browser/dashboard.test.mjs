// The dashboard in a real browser, on a real server.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { live, openBrowser, openHouse, openPage } from "./house.mjs";

const PLACES = ["/", "/jobs", "/queues", "/budgets", "/schedules", "/workers", "/actions"];
const EVIL = "<script>alert(1)</script>";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

const row = (page, id) => page.locator(`#j-${id}`);

describe("jobs", () => {
  let house;
  let page;
  before(async () => {
    house = await openHouse();
    page = await openPage(browser);
  });
  after(async () => {
    await page.context().close();
    await house.close();
  });

  test("a new job appears without a reload", async () => {
    await house.enqueue({ kind: "first" });
    await page.goto(`${house.url}/jobs`);
    await live(page);
    await page.evaluate(() => (window.same = true));
    const { id } = await house.enqueue({ kind: "second", delay: "1h" });
    await row(page, id).waitFor();
    assert.equal(await row(page, id).locator(".state").textContent(), "queued");
    assert.equal(await page.evaluate(() => window.same), true, "the page was not loaded anew");
  });

  test("cancel by click, retry by click", async () => {
    const { id } = await house.enqueue({ kind: "to-cancel", delay: "1h" });
    await page.goto(`${house.url}/jobs/${id}`);
    await live(page);
    assert.match(await page.locator("#why").textContent(), /Waits: for its time/);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator("#ask").getByRole("button", { name: "Keep as it is" }).click();
    assert.equal((await house.call("GET", `/v1/jobs/${id}`)).state, "queued", "it was asked for first");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator("#ask").getByRole("button", { name: "Cancel" }).click();
    await page.locator("h1 .state.canceled").waitFor();
    assert.equal((await house.call("GET", `/v1/jobs/${id}`)).state, "canceled");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.locator("#ask").getByRole("button", { name: "Retry" }).click();
    await page.locator("h1 .state.queued").waitFor();
    assert.equal((await house.call("GET", `/v1/jobs/${id}`)).state, "queued");
  });

  test("a job moves through its states while one looks on", async () => {
    const { id } = await house.enqueue({ kind: "watched", queue: "watched" });
    await page.goto(`${house.url}/jobs/${id}`);
    await live(page);
    const { leases } = await house.call("POST", "/v1/claim", { worker: "w", queues: ["watched"], limit: 1 });
    await page.locator("h1 .state.running").waitFor();
    const fence = leases[0].fence;
    await house.call("PUT", `/v1/jobs/${id}/steps/download`, { fence, output: { bytes: 512 } });
    await house.call("PUT", `/v1/jobs/${id}/progress`, { fence, progress: { done: 3, of: 10 } });
    await page.getByText("3 of 10").waitFor();
    await house.call("POST", "/v1/leases/settle", {
      results: [{ job_id: id, fence, outcome: "completed", result: { ok: true } }],
    });
    await page.locator("h1 .state.completed").waitFor();
    assert.match(await page.locator(".life").textContent(), /download/);
    assert.match(await page.locator("main").textContent(), /"ok": true/);
  });

  test("many: select, preview, act", async () => {
    for (let number = 0; number < 4; number++) await house.enqueue({ kind: "bulk", queue: "bulk", delay: "1h" });
    await page.goto(`${house.url}/jobs?queue=bulk`);
    await live(page);
    await page.locator("td.pick input").first().check();
    await page.locator("#selected", { hasText: "1 selected" }).waitFor();
    await page.locator("[data-many=cancel]").click();
    await page.locator("#ask").getByRole("button", { name: "Cancel" }).click();
    await page.locator("tr .state.canceled").waitFor();
    assert.equal(await page.locator("[data-many=cancel]").isDisabled(), true, "nothing is selected");
    await page.locator("#select-all").check();
    await page.locator("#selected", { hasText: "4 selected" }).waitFor();
    await page.locator("#match-all").click();
    await page.locator("#selected", { hasText: "all that match" }).waitFor();
    await page.locator("[data-many=cancel]").click();
    await page.locator("#ask", { hasText: "Cancel 3 jobs?" }).waitFor();
    await page.locator("#ask").getByRole("button", { name: "Cancel" }).click();
    await page.waitForFunction(() => document.querySelectorAll("tr .state.canceled").length === 4);
    await page.goto(`${house.url}/jobs?queue=bulk&state=canceled`);
    await page.locator("#match-all").click();
    await page.locator("[data-many=retry]").click();
    await page.locator("#ask", { hasText: "Retry 4 jobs?" }).waitFor();
    await page.locator("#ask").getByRole("button", { name: "Retry" }).click();
    await page.getByText("No job matches").waitFor();
  });

  test("the box selects the rows shown, and all that match are more than these", async () => {
    const jobs = Array.from({ length: 60 }, () => ({ kind: "crowd", queue: "crowd", delay: "1h" }));
    await house.call("POST", "/v1/jobs/batch", { jobs });
    await page.goto(`${house.url}/jobs?queue=crowd`);
    await live(page);
    await page.locator("#select-all").check();
    await page.locator("#selected", { hasText: "50 selected" }).waitFor();
    await page.locator("[data-many=cancel]").click();
    await page.locator("#ask", { hasText: "Cancel 50 jobs?" }).waitFor();
    await page.locator("#ask").getByRole("button", { name: "Keep as it is" }).click();
    await page.locator("#match-all").click();
    await page.locator("[data-many=cancel]").click();
    await page.locator("#ask", { hasText: "Cancel 60 jobs?" }).waitFor();
    await page.locator("#ask").getByRole("button", { name: "Keep as it is" }).click();
    await page.locator("td.pick input").first().uncheck();
    await page.locator("#selected", { hasText: "49 selected" }).waitFor();
  });

  test("rows that come while all that match are selected are selected, too", async () => {
    const queue = "coming";
    for (let number = 0; number < 2; number++) await house.enqueue({ kind: queue, queue, delay: "1h" });
    await page.goto(`${house.url}/jobs?queue=${queue}`);
    await live(page);
    await page.locator("#match-all").click();
    // As it is when they are shown first; the next look would mend it.
    await page.evaluate(() => {
      const count = (what) => document.querySelectorAll(what).length;
      document.addEventListener("windlass:shown", () => {
        if (count("td.pick input") === 3) window.seen ??= [count("tr[data-ui-selected]"), count("#select-all:checked")];
      });
    });
    await house.enqueue({ kind: queue, queue, delay: "1h" });
    const seen = await page.waitForFunction(() => window.seen);
    assert.deepEqual(await seen.jsonValue(), [3, 1]);
  });

  test("the list holds still under the pointer", async () => {
    const queue = "still";
    const add = () => house.enqueue({ kind: queue, queue, delay: "1h" });
    const ids = [];
    for (let number = 0; number < 4; number++) ids.push((await add()).id);
    await page.goto(`${house.url}/jobs?queue=${queue}&state=queued`);
    await live(page);
    const rows = () => page.locator("tr[data-id]").evaluateAll((all) => all.map((one) => one.dataset.id));
    const top = async () => (await row(page, ids[1]).boundingBox()).y;
    const before = [await rows(), await top()];
    await row(page, ids[1]).hover();
    const late = [(await add()).id, (await add()).id];
    await house.call("POST", `/v1/jobs/${ids[0]}/cancel`);
    await page.locator("#held", { hasText: "2 new, 1 gone" }).waitFor();
    assert.deepEqual([await rows(), await top()], before, "no row came, went or moved");
    // What is shown of a row is still kept up to date.
    await house.call("POST", `/v1/jobs/${ids[2]}/run`);
    await page.waitForFunction((id) => !document.getElementById(`j-${id}`).textContent.includes("later"), ids[2]);
    await page.mouse.move(2, 2);
    await page.waitForFunction((id) => document.getElementById(`j-${id}`), late[1]);
    assert.deepEqual(await rows(), [late[1], late[0], ids[3], ids[2], ids[1]]);
    await page.locator("#held").waitFor({ state: "hidden" });
    // The same by the keyboard; the button lets them in.
    await row(page, ids[1]).locator("a.open").focus();
    const { id } = await add();
    await page.locator("#held", { hasText: "1 new" }).waitFor();
    assert.equal(await row(page, id).count(), 0);
    await page.locator("#held").click();
    await row(page, id).waitFor();
    await page.locator("#held").waitFor({ state: "hidden" });
  });

  test("names of any length fit the window", async () => {
    const long = "k".repeat(128);
    const { id } = await house.enqueue({ kind: long, queue: long, key: "y".repeat(500), delay: "1h" });
    // As long as a piece that is never broken, and one letter longer; with joints of every sort.
    for (const name of ["n".repeat(14), "n".repeat(20), "n".repeat(21), `${"n".repeat(19)}.${"n".repeat(20)}`, `${"n".repeat(19)}-${"n".repeat(19)}_${"n".repeat(20)}`]) {
      await house.call("PUT", `/v1/queues/${name}`, { limit: 1_000 });
      await house.call("PUT", `/v1/budgets/${name}`, { slots: 10, per_second: 100, per_minute: 1_000, per_day: 20_000 });
      await house.call("PUT", `/v1/schedules/${name}`, { cron: "0 3 1 * *", job: { kind: name, queue: name } });
      const failing = await house.enqueue({ kind: name, queue: name });
      const { leases } = await house.call("POST", "/v1/claim", { worker: name, queues: [name], limit: 1 });
      const error = { job_id: failing.id, fence: leases[0].fence, outcome: "failed", error: "this one cannot be done" };
      await house.call("POST", "/v1/leases/settle", { results: [error] });
    }
    for (const width of [1280, 1200, 1068, 960, 721, 390, 360]) {
      await page.setViewportSize({ width, height: 800 });
      for (const place of ["/", "/jobs", "/queues", "/budgets", "/schedules", "/workers", "/waiting", `/jobs/${id}`]) {
        await page.goto(house.url + place);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${place} is ${wide} px wide in a window of ${width}`);
      }
    }
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  test("a job that was tried often says that its first attempts are no longer known", async () => {
    const { id } = await house.enqueue({ kind: "often", queue: "often", retry: { ladder: "0s", max_attempts: 50 } });
    for (let attempt = 0; attempt < 40; attempt++) {
      const { leases } = await house.call("POST", "/v1/claim", { worker: "w", queues: ["often"], limit: 1, wait_ms: 5000 });
      const results = [{ job_id: id, fence: leases[0].fence, outcome: "retry", error: "no", delay: "0s" }];
      await house.call("POST", "/v1/leases/settle", { results });
    }
    await page.goto(`${house.url}/jobs/${id}`);
    const life = await page.locator(".life").textContent();
    assert.match(life, /earlier attempts/);
    assert.match(life, /attempt 40/);
    assert.equal((await house.call("GET", `/v1/jobs/${id}`)).cut, true);
  });

  test("the address holds the view", async () => {
    await house.enqueue({ kind: "needle", payload: { city: "Ulm" } });
    await page.goto(`${house.url}/jobs`);
    await live(page);
    await page.locator("#search").fill("Ulm");
    await page.waitForURL(/text=Ulm/);
    await page.waitForFunction(() => document.querySelectorAll("tr[data-id]").length === 1);
    await page.locator(".chip.failed").click();
    await page.waitForURL(/state=failed&text=Ulm/);
    await page.getByText("No job matches").waitFor();
    await page.goBack();
    await page.locator("tr[data-id]").waitFor();
    await page.reload();
    assert.equal(await page.locator("#search").inputValue(), "Ulm");
  });

  test("the keyboard is enough", async () => {
    await page.goto(`${house.url}/jobs`);
    await live(page);
    const at = () => page.evaluate(() => [...document.querySelectorAll("tr[data-row]")].findIndex((row) => row.hasAttribute("data-ui-at")));
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    assert.equal(await at(), 1);
    await page.keyboard.press("k");
    assert.equal(await at(), 0);
    await page.keyboard.press("x");
    await page.locator("#selected", { hasText: "1 selected" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#selected", { hasText: "shown" }).waitFor();
    await page.keyboard.press("?");
    await page.locator("#help[open]").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
    await page.keyboard.press("Escape");
    const id = await page.locator("tr[data-row]").first().getAttribute("data-id");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${house.url}/jobs/${id}`);
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.waitForURL(`${house.url}/queues`);
  });

  test("fault 67: script in a name, a payload, an error is text", async () => {
    const { id } = await house.enqueue({ kind: EVIL, key: EVIL, payload: { [EVIL]: EVIL }, queue: "evil", retry: { ladder: "none" } });
    const { leases } = await house.call("POST", "/v1/claim", { worker: EVIL, queues: ["evil"], limit: 1 });
    await house.call("POST", "/v1/leases/settle", {
      results: [{ job_id: id, fence: leases[0].fence, outcome: "failed", error: `${EVIL}\n${EVIL}` }],
    });
    for (const place of [...PLACES, `/jobs/${id}`, `/jobs?kind=${encodeURIComponent(EVIL)}`]) {
      await page.goto(house.url + place);
      await live(page);
    }
    await page.goto(`${house.url}/jobs/${id}`);
    assert.equal(await page.locator("h1 .kind").textContent(), EVIL);
    assert.equal(await page.locator("main script").count(), 0);
  });

  test("nothing went wrong on any of these pages", () => assert.deepEqual(page.wrongs, []));
});

describe("house", () => {
  test("an empty store says what to do, and its sample fills every page", async () => {
    const house = await openHouse();
    const page = await openPage(browser);
    try {
      await page.goto(house.url);
      await page.getByRole("button", { name: "Start the sample" }).click();
      await page.locator(".figures").waitFor();
      await page.goto(`${house.url}/jobs`);
      await page.locator("tr[data-id] .state.completed").first().waitFor();
      for (const place of ["/queues", "/budgets", "/schedules", "/workers"]) {
        await page.goto(house.url + place);
        await page.locator("tbody tr", { hasText: "sample" }).first().waitFor();
      }
      assert.deepEqual(page.wrongs, []);
    } finally {
      await page.context().close();
      await house.close();
    }
  });

  test("queues, budgets and schedules are set, paused and deleted", async () => {
    const house = await openHouse();
    const page = await openPage(browser);
    const yes = () => page.locator("#ask button.main").click();
    try {
      await page.goto(`${house.url}/queues`);
      await page.getByText("Set the policy of a queue").click();
      await page.locator(".new input[name='{name}']").fill("mail");
      await page.locator(".new input[name=limit]").fill("5");
      await page.locator(".new button").click();
      await page.locator("#q-mail").waitFor();
      await page.getByRole("button", { name: "Pause" }).click();
      await yes();
      await page.locator("#q-mail .tag", { hasText: "paused" }).waitFor();
      const queue = await house.call("GET", "/v1/queues/mail");
      assert.deepEqual([queue.paused, queue.policy.limit], [true, 5]);
      await page.goto(`${house.url}/budgets`);
      await page.getByText("Set a budget").click();
      await page.locator(".new input[name='{name}']").fill("etsy");
      await page.locator(".new input[name=per_second]").fill("10");
      await page.locator(".new button").click();
      await page.locator("#b-etsy summary", { hasText: "Cool down" }).click();
      await page.locator("#b-etsy form[data-post] button").click();
      await yes();
      await page.locator("#b-etsy .tag", { hasText: "cooling" }).waitFor();
      await page.goto(`${house.url}/schedules`);
      await page.getByText("Set a schedule").click();
      await page.locator(".new input[name='{name}']").fill("nightly");
      await page.locator(".new input[name=cron]").fill("0 3 * * *");
      await page.locator(".new textarea[name=job]").fill('{"kind": "report", "payload": {"n": 12345678901234567}}');
      await page.locator(".new button").click();
      await page.locator("#s-nightly").getByRole("button", { name: "Pause" }).click();
      await page.locator("#s-nightly .tag", { hasText: "paused" }).waitFor();
      const stored = await (await fetch(`${house.url}/v1/schedules/nightly`)).text();
      assert.match(stored, /"n": ?12345678901234567\b/, "pausing changes no number");
      await page.getByRole("button", { name: "Run now" }).click();
      await yes();
      await page.locator("#said", { hasText: "Enqueued" }).waitFor();
      await page.getByRole("button", { name: "Delete" }).click();
      await yes();
      await page.locator("#s-nightly").waitFor({ state: "detached" });
      assert.deepEqual(page.wrongs, []);
    } finally {
      await page.context().close();
      await house.close();
    }
  });

  test("an event reaches the overview", async () => {
    const house = await openHouse();
    const page = await openPage(browser);
    try {
      await house.enqueue({ kind: "k" });
      await page.goto(house.url);
      await live(page);
      await page.locator(".figures").waitFor();
      await house.enqueue({ kind: "k" });
      await page.waitForFunction(() => document.querySelector(".figures dd").textContent === "2");
      assert.match(await page.title(), /2 queued/);
    } finally {
      await page.context().close();
      await house.close();
    }
  });

  test("faults 68 and 69: signing in with the token, and out", async () => {
    const token = "a-long-random-text-4f2a";
    const house = await openHouse({ token });
    const page = await openPage(browser);
    try {
      await house.enqueue({ kind: "k" });
      await page.goto(`${house.url}/jobs?state=queued`);
      await page.waitForURL(/\/sign-in\?next=/);
      await page.locator("#token").fill("wrong");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("alert").waitFor();
      await page.goto(`${house.url}/jobs?state=queued`);
      await page.locator("#token").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.waitForURL(`${house.url}/jobs?state=queued`);
      await live(page);
      const [cookie] = await page.context().cookies();
      assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
      await page.locator("tr[data-id] a.open").click();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.locator("#ask button.main").click();
      await page.locator("h1 .state.canceled").waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.waitForURL(`${house.url}/sign-in`);
      await page.goto(house.url);
      await page.waitForURL(/\/sign-in/);
      assert.deepEqual(page.wrongs, []);
    } finally {
      await page.context().close();
      await house.close();
    }
  });
});
