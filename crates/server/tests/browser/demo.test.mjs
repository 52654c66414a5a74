// The demo in a browser: its own page and that of every worker that has one, by the rules of axe, light and dark, wide and narrow.
// With PICTURES set, its own page is kept as a picture in that folder, once every program answers.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser, openDemo, openPage, violations } from "./house.mjs";

let browser;
let demo;
before(async () => {
  browser = await openBrowser();
  demo = await openDemo();
});
after(async () => {
  await browser.close();
  await demo.close();
});

/** Waits until the traffic has begun, so that there is something on each page. */
async function begun(page) {
  await page.goto(demo.url);
  await page.waitForFunction(() => document.querySelectorAll("#workers .up").length >= 4, null, { timeout: 120_000 });
}

const NEEDED = ["serve", "bitcoin-news", "vela"];

/** The pages of the workers, as the demo links them: whoever answers with something else than a page has none. */
async function links(page) {
  const all = await page.locator("#workers h3 a").evaluateAll((links) => links.map((link) => [link.textContent, link.href]));
  const pages = [];
  for (const [name, href] of all) {
    const answer = await fetch(href).catch(() => null);
    if ((answer?.headers.get("content-type") ?? "").startsWith("text/html")) pages.push([name, href]);
  }
  return pages;
}

/** The same, once those that are needed answer: others may have been up before them. */
async function answering(page) {
  for (let tries = 0; ; tries += 1) {
    const pages = await links(page);
    const names = pages.map(([name]) => name);
    if (NEEDED.every((needed) => names.includes(needed))) return pages;
    assert.ok(tries < 240, `${NEEDED} of ${names}`);
    await page.waitForTimeout(250);
  }
}

/** The page when all are at work, and have done some. */
async function keep(page, name) {
  if (!process.env.PICTURES) return;
  await page.locator("#state", { hasText: /programs are running$/ }).waitFor({ timeout: 120_000 });
  await page.locator("#workers li", { hasText: "waiting quota" }).waitFor({ timeout: 120_000 });
  await page.screenshot({ path: join(process.env.PICTURES, `${name}.png`) });
}

for (const colorScheme of ["light", "dark"]) {
  for (const [size, width] of [["wide", 1280], ["narrow", 390]]) {
    test(`axe finds nothing, ${colorScheme}, ${width} px`, async () => {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 800 }, reducedMotion: "reduce" });
      await begun(page);
      const found = [];
      const note = async (name) => (await violations(page)).forEach((one) => found.push(`${name}: ${one}`));
      await note("the demo's own page");
      await keep(page, `demo-${colorScheme}-${size}`);
      for (const [name, href] of await answering(page)) {
        await page.goto(href);
        await page.waitForLoadState("load");
        await page.locator("tbody tr, article, li, dl").first().waitFor();
        await note(name);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (overflow > 0) found.push(`${name}: ${overflow} px too wide`);
      }
      assert.deepEqual(found, []);
      await page.context().close();
    });
  }
}
