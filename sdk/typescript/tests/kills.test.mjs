// Workers and servers that are killed, frozen and cut off: nothing is lost, nothing is settled twice.
import assert from "node:assert/strict";
import { copyFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../dist/windlass.js";
import { House, TOKEN, eventually, forgetfulProxy, lateProxy } from "./house.mjs";

const JOBS = 200;

async function load(house) {
  // A short lease, so that a crash is seen soon; so many crashes that chance quarantines none.
  await house.queue({ lease_ms: 1000, crashes_max: 1000 });
  return house.client.enqueueMany(Array.from({ length: JOBS }, (_, n) => ({ kind: "count", payload: { n } })));
}

/** Each is completed with what its own payload says, once, by its newest attempt. */
async function check(house, made) {
  await eventually("all jobs are over", async () => (await house.depth()) === 0, 40);
  for (const [n, { id }] of made.entries()) {
    const job = await house.job(id);
    assert.deepEqual([job.state, job.result], ["completed", (n + 1) * 2], JSON.stringify(job));
    assert.deepEqual(job.steps.map((step) => step.name), ["first", "second"]);
    assert.equal(job.timeline.filter((entry) => entry.what === "completed").length, 1);
    const last = job.attempts.at(-1);
    assert.deepEqual([last.outcome, last.fence], ["completed", job.fence]);
  }
}

test("workers are killed under load", async (t) => {
  const house = await House.open(t);
  const made = await load(house);
  for (let round = 1; round <= 3; round += 1) {
    const workers = [house.startWorker(), house.startWorker()];
    // When some of its work is done, and more is in hand.
    await eventually("they work", () => house.lines("runs").length >= round * 35);
    for (const worker of workers) await house.kill(worker);
  }
  house.startWorker({ SLOTS: "16" });
  await check(house, made);
  assert.ok(house.lines("runs").length > JOBS, "the kills hit work in hand");
});

test("who stood still waits out the pause of an epoch", async (t) => {
  // A file that is put back is a new epoch: until the lease is over that a lost commit may have given, nobody goes on.
  const house = await House.open(t);
  await house.queue({ lease_ms: 3000 });
  const { id } = await house.client.enqueue("tick", null);
  const ticks = [];
  let done = false;
  house.begin(house.worker().handle("tick", async (ctx) => {
    while (!done) {
      await ctx.goOn();
      ticks.push(performance.now());
      await new Promise((wake) => setTimeout(wake, 20));
    }
  }));
  await eventually("it works", () => ticks.length > 3);
  await house.kill(house.server);
  await eventually("it stands still", () => performance.now() - ticks.at(-1) > 3_500);
  const before = ticks.length;
  copyFileSync(join(house.folder, "jobs.db"), join(house.folder, "put_back"));
  renameSync(join(house.folder, "put_back"), join(house.folder, "jobs.db"));
  const began = performance.now();
  await house.startServer();
  await eventually("it goes on", () => ticks.length > before);
  assert.ok(ticks[before] - began >= 3_000, `not before the pause is over: ${ticks[before] - began} ms`);
  done = true;
  const job = await house.untilState(id, "completed");
  assert.equal(job.attempts.length, 1, "it is still the first attempt");
});

test("the server is killed under load", async (t) => {
  const house = await House.open(t);
  const made = await load(house);
  const worker = house.startWorker();
  for (let round = 1; round <= 3; round += 1) {
    await eventually("it works", () => house.lines("runs").length >= round * 30);
    await house.kill(house.server);
    await house.startServer();
  }
  await check(house, made);
  assert.equal(worker.exitCode, null, "the worker has lived through it");
});

test("answers are lost: a claim is asked again and gives the same jobs, so none runs twice", async (t) => {
  const house = await House.open(t);
  const proxy = await forgetfulProxy(t, house.port);
  const away = new Client({ urls: proxy.url, token: TOKEN });
  const made = [];
  for (let n = 0; n < 20; n += 1) made.push(await away.enqueue("count", { n }));
  assert.ok(made.every((one) => !one.deduplicated));
  made.push(...(await away.enqueueMany(Array.from({ length: 40 }, (_, n) => ({ kind: "count", payload: { n: n + 20 } })))));
  assert.equal(await house.depth(), 60);
  house.startWorker({ url: proxy.url });
  await check(house, made);
  assert.equal(house.lines("runs").length, 60);
  assert.equal(new Set(house.lines("runs")).size, 60);
  assert.ok(proxy.swallowed > 50, String(proxy.swallowed));
});

test("a claim that is carried out late is heard of", async (t) => {
  const house = await House.open(t);
  const proxy = await lateProxy(t, house.port);
  const worker = house.worker({ urls: proxy.url });
  worker.handle("one", () => "done");
  house.begin(worker);
  await eventually("the one that is asked again is answered", () => proxy.claims >= 2);
  let open;
  proxy.open = new Promise((done) => (open = done));
  await eventually("no claim is under way", () => proxy.underWay === 0);
  const { id } = await house.client.enqueue("one");
  assert.ok((await proxy.carryOut()).includes(id));
  open();
  const job = await house.untilState(id, "completed");
  assert.deepEqual([job.attempt, job.fence], [1, 1]);
});

test("a frozen worker writes nothing", async (t) => {
  const house = await House.open(t);
  await house.queue({ lease_ms: 2000 });
  const { id } = await house.client.enqueue("hold");
  // With one slot it has no claim under way when it freezes, to which the server would give the job again.
  const frozen = house.startWorker({ SLOTS: "1" });
  await eventually("it holds the job", () => house.lines("holding").length);
  frozen.kill("SIGSTOP");
  const other = house.startWorker();
  await eventually("another has it", () => house.lines("holding").length === 2);
  const before = await house.job(id);
  assert.deepEqual([before.state, before.fence, before.crashes], ["running", 2, 1]);
  writeFileSync(join(house.folder, `go-${frozen.pid}`), "");
  frozen.kill("SIGCONT");
  await eventually("the frozen one goes on", () => house.lines("stepped").includes(String(frozen.pid)));
  assert.equal(await house.kill(frozen, "SIGTERM"), 0);
  const after = await house.job(id);
  assert.deepEqual([after.state, after.fence, after.steps], ["running", 2, []]);
  writeFileSync(join(house.folder, `go-${other.pid}`), "");
  const done = await house.untilState(id, "completed");
  assert.deepEqual([done.result, done.steps[0].output], [`done by ${other.pid}`, other.pid]);
  assert.deepEqual(house.lines("summaries"), ["1/0/1"]);
});

test("SIGTERM gives back and ends", async (t) => {
  const house = await House.open(t);
  const ids = [];
  for (let n = 0; n < 3; n += 1) ids.push((await house.client.enqueue("listen")).id);
  const worker = house.startWorker();
  await eventually("they run", () => house.lines("listening").length === 3);
  const began = Date.now();
  assert.equal(await house.kill(worker, "SIGTERM"), 0);
  assert.ok(Date.now() - began < 8_000);
  for (const id of ids) {
    const job = await house.job(id);
    assert.deepEqual([job.state, job.attempt, job.crashes], ["queued", 0, 0]);
  }
});
