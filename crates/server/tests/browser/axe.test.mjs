// Every page by the rules of axe, light and dark, wide and narrow.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { live, openBrowser, openHouse, openPage, violations } from "./house.mjs";

const PLACES = [
  "/", "/?span=24h", "/queues/sample", "/jobs", "/waiting", "/queues", "/budgets", "/schedules", "/schedules/sample-report", "/workers", "/actions",
  "/docs",
];

let browser;
let house;
let closed;
before(async () => {
  browser = await openBrowser();
  house = await openHouse({ sample: true });
  closed = await openHouse({ token: "canary-8d1c0c5b7f3e4a6e9b2d" });
});
after(async () => {
  await browser.close();
  await house.close();
  await closed.close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    test(`axe finds nothing, ${colorScheme}, ${width} px`, async () => {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 }, reducedMotion: "reduce" });
      await page.goto(`${house.url}/jobs`);
      const id = await page.locator("tr[data-id]").first().getAttribute("data-id");
      for (const place of [...PLACES, `/jobs/${id}`]) {
        await page.goto(house.url + place);
        if (place !== "/docs") await live(page);
        assert.deepEqual(await violations(page), [], place);
      }
      await page.goto(`${house.url}/jobs`);
      // A row that is new has another colour for a second, and is read in that one, too.
      await page.locator("tr[data-id]").evaluateAll((rows) => rows.forEach((row) => row.style.setProperty("background", "var(--accent-soft)")));
      assert.deepEqual(await violations(page), [], "rows in the colour of their first second");
      await page.goto(`${house.url}/jobs?state=completed`);
      await live(page);
      await page.locator("#select-all").check();
      await page.locator("[data-many=delete]").click();
      await page.locator("#ask[open]").waitFor();
      assert.deepEqual(await violations(page), [], "an open dialog");
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await page.locator("#help[open]").waitFor();
      assert.deepEqual(await violations(page), [], "the help");
      await page.goto(`${closed.url}/sign-in`);
      assert.deepEqual(await violations(page), [], "/sign-in");
      await page.context().close();
    });
  }
}
