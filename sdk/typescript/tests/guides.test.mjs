// What stands in the documents works: programs are run as they are written.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { House, TOKEN } from "./house.mjs";

const SDK = new URL("../dist/windlass.js", import.meta.url).href;

function blocks(file) {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  return [...text.matchAll(/^```js\n(.*?)^```$/gms)].map((match) => match[1]);
}

function program(house, name, code) {
  const file = join(house.folder, name);
  writeFileSync(file, code.replace('from "windlass"', `from "${SDK}"`));
  return file;
}

test("the worker and the client of the README", async (t) => {
  const house = await House.open(t);
  const [worker, client] = blocks("../README.md");
  assert.ok(worker.split("\n").filter((line) => line.trim()).length <= 8);
  house.start(process.execPath, [program(house, "worker.mjs", worker)], "program.log", { WINDLASS_URL: house.url });
  const env = { ...process.env, WINDLASS_URL: house.url, WINDLASS_TOKEN: TOKEN };
  const { stdout } = await promisify(execFile)(process.execPath, [program(house, "client.mjs", client)], { env });
  assert.equal(stdout, "{ image: 'cat.png', width: 640 }\n");
});

test("the worker of the guide", async (t) => {
  const house = await House.open(t);
  const [worker] = blocks("../../../docs/guide/remote-workers.md");
  house.start(process.execPath, [program(house, "worker.mjs", worker)], "program.log", { WINDLASS_URL: house.url });
  const { id } = await house.client.enqueue("resize", { image: "cat.png" });
  assert.deepEqual(await house.client.wait(id, "20s"), { size: 7 });
  const failed = await house.untilState((await house.client.enqueue("resize")).id, "failed");
  assert.equal(failed.error, "there is no image");
});
