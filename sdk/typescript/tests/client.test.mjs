// The client against a real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, JobCanceled, JobFailed, NotOver, Permanent, Refused, Unavailable, newId } from "../dist/windlass.js";
import { House, TOKEN, freePort } from "./house.mjs";

test("a job is enqueued once and found", async (t) => {
  const house = await House.open(t);
  const made = await house.client.enqueue("resize", { image: "cat.png" }, {
    queue: "images", priority: 7, key: "shop-7", budgets: ["etsy"], retry: { ladder: "1m 5m", max_attempts: 9 },
    timeout: 90_000, run_at: new Date(Date.now() + 3_600_000), meta: { by: "test" },
  });
  assert.equal(made.deduplicated, false);
  const job = await house.job(made.id);
  assert.deepEqual([job.kind, job.queue, job.state, job.payload], ["resize", "images", "queued", { image: "cat.png" }]);
  assert.deepEqual([job.priority, job.key, job.budgets], [7, "shop-7", ["etsy"]]);
  assert.deepEqual([job.timeout, job.meta, job.retry], ["90s", { by: "test" }, { ladder: "1m 5m", max_attempts: 9 }]);
  assert.equal((await house.client.explain(made.id)).status, "held");
  assert.equal(await house.client.get(newId()), undefined);
});

test("the same id or dedupe key is the same job", async (t) => {
  const { client } = await House.open(t);
  const id = newId();
  assert.equal((await client.enqueue("a", null, { id })).deduplicated, false);
  assert.deepEqual(await client.enqueue("a", null, { id }), { id, deduplicated: true });
  await assert.rejects(client.enqueue("b", null, { id }), (error) => error instanceof Refused && error.code === "id_conflict");
  const first = await client.enqueue("a", null, { dedupe_key: "k" });
  assert.deepEqual(await client.enqueue("a", null, { dedupe_key: "k" }), { id: first.id, deduplicated: true });
});

test("many are all or none", async (t) => {
  const house = await House.open(t);
  const made = await house.client.enqueueMany(Array.from({ length: 500 }, (_, n) => ({ kind: "many", payload: { n } })));
  assert.equal(new Set(made.map((one) => one.id)).size, 500);
  await assert.rejects(house.client.enqueueMany([{ kind: "many" }, { kind: "" }]), Refused);
  assert.equal(await house.depth(), 500);
  assert.deepEqual(await house.client.enqueueMany([]), []);
});

test("wait gives the result or says why not", async (t) => {
  const house = await House.open(t);
  const { client } = house;
  let go;
  const gone = new Promise((done) => (go = done));
  const worker = house.worker();
  worker.handle("ok", async (ctx) => (await gone, { n: ctx.payload }));
  worker.handle("bad", () => { throw new Permanent("no such shop"); });
  house.begin(worker);
  const made = await client.enqueue("ok", 5);
  await assert.rejects(client.wait(made.id, 100), NotOver);
  go();
  assert.deepEqual(await client.wait(made.id, "20s"), { n: 5 });
  const bad = await client.enqueue("bad");
  await assert.rejects(client.wait(bad.id, "20s"), (error) => error instanceof JobFailed && error.job.error === "no such shop");
  const later = await client.enqueue("ok", null, { delay: "1h" });
  assert.equal(await client.cancel(later.id), "canceled");
  assert.equal(await client.cancel(later.id), "canceled");
  assert.equal(await client.cancel(made.id), "final");
  await assert.rejects(client.wait(later.id), JobCanceled);
  await client.retry(later.id);
  assert.notEqual((await house.job(later.id)).state, "canceled");
});

test("several servers, and none", async (t) => {
  const house = await House.open(t);
  const nobody = `http://127.0.0.1:${await freePort()}`;
  const both = new Client({ urls: [nobody, house.url], token: TOKEN });
  assert.equal((await house.job((await both.enqueue("a")).id)).kind, "a");
  await assert.rejects(new Client({ urls: nobody, token: TOKEN, patience: 300 }).enqueue("a"), Unavailable);
});

test("a wrong token is said at once", async (t) => {
  const house = await House.open(t);
  const wrong = { urls: house.url, token: "wrong" };
  await assert.rejects(new Client(wrong).enqueue("a"), (error) => error instanceof Refused && error.status === 401);
  await assert.rejects(house.worker(wrong).handle("a", () => {}).run({ signals: false }), Refused);
});

test("bad addresses are refused", () => {
  for (const urls of ["127.0.0.1:7717", "ftp://x", "http://user:secret@x", " , "]) {
    assert.throws(() => new Client({ urls }), (error) => error instanceof TypeError && !error.message.includes("secret"), urls);
  }
});
