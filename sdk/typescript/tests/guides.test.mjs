// What stands in the documents works: programs are run as they are written.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { House, TOKEN, eventually } from "./house.mjs";

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

/** The lines that a program of another queue becomes, as they are written, between what a program has around them. */
function after(house, name, code) {
  const page = readFileSync(new URL("../../../docs/guide/migrating.md", import.meta.url), "utf8");
  const mark = `<!-- run: ${name} -->\n\`\`\`js\n`;
  assert.ok(page.includes(mark), name);
  const lines = page.split(mark)[1].split("\n```")[0];
  return program(house, "after.mjs", code.replace("LINES", lines));
}

test("the lines that programs of others become", async (t) => {
  const house = await House.open(t);
  const env = { WINDLASS_URL: house.url };
  const around = `import { Client, Worker } from "windlass";\n
    const client = new Client(), resize = (image) => image.length, greet = (user) => user + 1;\n`;
  const job = (kind) => house.api("GET", `/v1/jobs?kind=${kind}`).then(({ jobs }) => jobs[0]);

  const boss = after(house, "after pg-boss", `${around} const worker = new Worker();\nLINES\nawait worker.run();`);
  const works = house.start(process.execPath, [boss], "after.log", env);
  const { id } = await eventually("it is enqueued", () => job("resize"));
  assert.equal(await house.client.wait(id, "20s"), 7);
  assert.equal((await house.job(id)).retry.ladder, "1m 1m 1m");
  assert.equal(await house.kill(works, "SIGTERM"), 0);

  house.start(process.execPath, [after(house, "after graphile-worker", `${around}LINES`)], "after.log", env);
  const welcome = await house.client.enqueue("welcome", { user: 7 }, { key: "user-7" });
  assert.equal(await house.client.wait(welcome.id, "20s"), 8);

  const agenda = `${around} const worker = new Worker();\nLINES`;
  house.start(process.execPath, [after(house, "after agenda", agenda)], "after.log", env);
  const delayed = await eventually("it is enqueued", async () => {
    const newest = await job("resize");
    return newest.id !== id && newest;
  });
  const minutes = (Date.parse(delayed.run_at) - Date.parse(delayed.created_at)) / 60_000;
  assert.deepEqual([delayed.state, minutes], ["queued", 5]);
  await house.api("POST", `/v1/jobs/${delayed.id}/run`);
  assert.equal(await house.client.wait(delayed.id, "20s"), 7);
});
