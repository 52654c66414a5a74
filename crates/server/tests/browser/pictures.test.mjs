// Every page in light and dark, wide, middling and narrow: nothing is wider than the
// window, and no name is broken but behind its dots. With PICTURES set, each is kept as a picture in that folder.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { brokenNames, live, openBrowser, openHouse, openPage } from "./house.mjs";

const SIZES = { wide: { width: 1280, height: 800 }, middling: { width: 960, height: 800 }, tablet: { width: 744, height: 1133 }, narrow: { width: 390, height: 844 } };
const NAMES = ["sample.broken", "sample.call", "sample.flaky", "sample.report", "sample.resize", "sample.sync", "sample-slow", "sample-api", "sample-worker", "each-second"];

let browser;
let house;
let places;
before(async () => {
  browser = await openBrowser();
  house = await openHouse({ sample: true });
  places = { overview: "/", jobs: "/jobs", queues: "/queues", queue: "/queues/sample", hours: "/?span=1h", budgets: "/budgets", schedules: "/schedules", schedule: "/schedules/each-second", waiting: "/waiting", workers: "/workers", actions: "/actions", api: "/docs" };
  // One with a history: it ran, was asked for by hand, and rests.
  const schedule = (paused) => ({ cron: "* * * * * *", overlap: "queue", paused, job: { kind: "tick", queue: "ticks" } });
  const page = await openPage(browser);
  await house.call("PUT", "/v1/schedules/each-second", schedule(false));
  await page.goto(`${house.url}/schedules/each-second`);
  await page.locator("tr[data-row] .state").nth(2).waitFor();
  await house.call("POST", "/v1/schedules/each-second/run");
  await house.call("PUT", "/v1/schedules/each-second", schedule(true));
  await page.locator("tr[data-row]", { hasText: "the schedule was paused" }).nth(1).waitFor();
  await page.goto(`${house.url}/jobs?state=completed&kind=sample.report`);
  const finished = page.locator("tr[data-id]").first();
  await finished.waitFor({ timeout: 60_000 });
  places.job = `/jobs/${await finished.getAttribute("data-id")}`;
  await page.context().close();
});
after(async () => {
  await browser.close();
  await house.close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    test(`${colorScheme}, ${size}`, async () => {
      const page = await openPage(browser, { colorScheme, viewport });
      for (const [name, place] of Object.entries(places)) {
        await page.goto(house.url + place);
        if (name !== "api") await live(page);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= viewport.width, `${name} is ${width} wide`);
        assert.deepEqual(await brokenNames(page, NAMES), [], name);
        if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `${name}-${colorScheme}-${size}.png`) });
      }
      await page.goto(`${house.url}/jobs?state=completed`);
      await live(page);
      await page.locator("#select-all").check();
      await page.locator("[data-many=delete]").click();
      await page.locator("#ask[open]").waitFor();
      if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `dialog-${colorScheme}-${size}.png`) });
      assert.deepEqual(page.wrongs, []);
      await page.context().close();
    });
  }
}
