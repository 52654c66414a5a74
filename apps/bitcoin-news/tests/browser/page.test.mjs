// The page in a real browser, on the real program.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { documents, openBrowser, openPage, openStore, serve } from "./house.mjs";

const SIZES = { wide: { width: 1280, height: 900 }, narrow: { width: 390, height: 844 } };
const COUNT = 60;

let browser, store, server, page;
const cards = () => page.locator("article");
const count = (name) => page.locator(`[data-count="${name}"]`).textContent();
const until = (condition, value) => page.waitForFunction(condition, value);

before(async () => {
  browser = await openBrowser();
  store = await openStore();
  await store.fill(documents(COUNT));
  server = await serve(store);
});
after(async () => {
  await browser.close();
  await server.close();
  await store.close();
});

describe("the feed as a person wants it", () => {
  before(async () => {
    page = await openPage(browser);
    await page.goto(server.url);
    await cards().first().waitFor();
  });
  after(async () => {
    assert.deepEqual(page.wrongs, []);
    await page.context().close();
  });

  test("newest first, with what is there of each", async () => {
    assert.equal(await cards().count(), 25);
    const first = cards().first();
    assert.equal(await first.locator("h2").textContent(), `Bitcoin report ${COUNT}`);
    assert.ok(await first.locator(".working").isVisible(), "it is still being processed");
    assert.equal(await first.locator(".badge").textContent(), "○ Unknown");
    const third = cards().nth(2);
    assert.ok(!(await third.locator(".working").isVisible()));
    assert.match(await third.locator(".summary p").textContent(), /in short/);
    assert.equal(await third.locator(".source a").getAttribute("href"), "https://paper.example/");
    assert.equal(await third.locator("time").textContent(), "2 h ago");
    assert.match(await third.locator("time").getAttribute("title"), /20\d\d/, "the exact time on hover");
    const link = third.locator("h2 a");
    assert.deepEqual([await link.getAttribute("target"), await link.getAttribute("rel")], ["_blank", "noopener noreferrer"]);
  });

  test("counts", async () => {
    const all = await Promise.all(["all", "positive", "negative", "neutral", "unknown"].map(count));
    assert.equal(all.slice(1).reduce((sum, one) => sum + Number(one), 0), COUNT);
    assert.deepEqual([all[0], all[4]], ["60", "2"]);
  });

  test("load more until there is no more", async () => {
    await page.getByRole("button", { name: "Load more" }).click();
    await until(() => document.querySelectorAll("article").length === 50);
    assert.match(await page.locator("#shown").textContent(), /Showing 50 of 60/);
    await page.getByRole("button", { name: "Load more" }).click();
    await until(() => document.querySelectorAll("article").length === 60);
    assert.ok(!(await page.getByRole("button", { name: "Load more" }).isVisible()));
    const ids = await cards().evaluateAll((all) => all.map((one) => one.dataset.id));
    assert.equal(new Set(ids).size, COUNT, "none twice");
  });

  test("strangers' texts are text", async () => {
    const evil = page.locator('article[data-id="a3"] h2');
    assert.equal(await evil.textContent(), "<img src=x onerror=alert(1)> & <script>alert(2)</script>");
    assert.equal(await evil.locator("img").count(), 0);
  });

  test("filter by sentiment", async () => {
    await page.getByText("▲ Positive", { exact: false }).first().click();
    await until(() => [...document.querySelectorAll(".badge")].every((badge) => badge.classList.contains("positive")));
    assert.match(page.url(), /sentiment=positive/);
    assert.equal(await count("all"), "60", "the counts stay");
    await page.reload();
    await cards().first().waitFor();
    assert.ok((await cards().count()) < 25, "the address keeps the view");
    assert.equal(await count("all"), "60");
    await page.getByText("All", { exact: false }).first().click();
    await until(() => document.querySelectorAll("article").length === 25);
  });

  test("search", async () => {
    await page.getByRole("searchbox").fill("report 42");
    await until(() => document.querySelectorAll("article").length === 1);
    assert.equal(await cards().first().locator("h2").textContent(), "Bitcoin report 42");
    await page.getByRole("searchbox").fill("nobody wrote this");
    await page.getByText("Nothing fits").waitFor();
    await page.getByRole("searchbox").fill("");
    await until(() => document.querySelectorAll("article").length === 25);
  });
});

test("a server that is away is said, and tried again", async () => {
  page = await openPage(browser);
  await page.route("**/api/bitcoin-news*", (route) => route.abort());
  await page.goto(server.url);
  await page.getByText("could not be loaded").waitFor();
  await page.unroute("**/api/bitcoin-news*");
  await page.getByRole("button", { name: "Try again" }).click();
  await cards().first().waitFor();
  await page.context().close();
});

test("what was taken away goes, and is not taken for news", async () => {
  const other = await openStore();
  await other.fill(documents(30));
  const feed = await serve(other);
  page = await openPage(browser);
  await page.clock.install();
  await page.goto(feed.url);
  await cards().first().waitFor();
  assert.equal(await cards().count(), 25);
  // The first, one in the middle, and the last one that is shown.
  await other.run("drop", "a30", "a20", "a6");
  const total = async () => (await (await fetch(`${feed.url}/api/bitcoin-news`)).json()).totalArticles;
  while ((await total()) !== 27);
  await page.clock.runFor(31_000);
  await until(() => document.querySelectorAll("article").length === 22);
  const ids = await cards().evaluateAll((nodes) => nodes.map((node) => node.dataset.id));
  assert.deepEqual(["a30", "a20", "a6"].filter((id) => ids.includes(id)), []);
  assert.ok(!(await page.locator("#news").isVisible()), "nothing new has come");
  assert.equal(await page.locator("#shown").textContent(), "Showing 22 of 27");
  await page.locator("#more").click();
  await until(() => document.querySelectorAll("article").length === 27);
  assert.deepEqual(page.wrongs, []);
  await page.context().close();
  await feed.close();
  await other.close();
});

test("an empty feed says so", async () => {
  const empty = await openStore();
  const other = await serve(empty);
  page = await openPage(browser);
  await page.goto(other.url);
  await page.getByText("No news yet").waitFor();
  assert.deepEqual(page.wrongs, []);
  await page.context().close();
  await other.close();
  await empty.close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    test(`${colorScheme}, ${size}: nothing is wider than the window`, async () => {
      page = await openPage(browser, { colorScheme, viewport });
      await page.goto(server.url);
      await cards().first().waitFor();
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= viewport.width, `${width} wide`);
      if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `news-${colorScheme}-${size}.png`) });
      assert.deepEqual(page.wrongs, []);
      await page.context().close();
    });
  }
}
