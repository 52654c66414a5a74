// Every page by the rules of axe, light and dark, wide and narrow.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { live, openBrowser, openHouse, openPage } from "./house.mjs";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PLACES = ["/", "/?span=24h", "/queues/sample", "/jobs", "/waiting", "/queues", "/budgets", "/schedules", "/workers", "/actions"];

let browser;
let house;
before(async () => {
  browser = await openBrowser();
  house = await openHouse({ sample: true });
});
after(async () => {
  await browser.close();
  await house.close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    test(`axe finds nothing, ${colorScheme}, ${width} px`, async () => {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 } });
      await page.goto(`${house.url}/jobs`);
      const id = await page.locator("tr[data-id]").first().getAttribute("data-id");
      for (const place of [...PLACES, `/jobs/${id}`]) {
        await page.goto(house.url + place);
        await live(page);
        await page.evaluate(AXE);
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html).join(" ")}`);
        assert.deepEqual(found, [], place);
      }
      await page.context().close();
    });
  }
}
