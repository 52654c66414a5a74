// The worker against a real server: every way to end, steps, progress, cancel, stop.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { Canceled, Park, Permanent, RetryAfter, Worker } from "../dist/windlass.js";
import { House, TOKEN, eventually } from "./house.mjs";

/** One job of one handler, until it is over. */
async function one(t, handler, payload, options) {
  const house = await House.open(t);
  const { id } = await house.client.enqueue("one", payload, options);
  house.begin(house.worker().handle("one", handler));
  return eventually("the job is over", async () => {
    const job = await house.job(id);
    return job.ended_at && job;
  });
}

test("completed with a result", async (t) => {
  const job = await one(t, (ctx) => ({ n: ctx.payload.n, id: ctx.id, fence: ctx.fence }), { n: 1 });
  assert.deepEqual([job.state, job.result], ["completed", { n: 1, id: job.id, fence: 1 }]);
});

test("what it says is kept, and its leaving is known", async (t) => {
  const house = await House.open(t);
  const { id } = await house.client.enqueue("one", null);
  const talk = (ctx) => { for (let number = 0; number < 20_000; number++) ctx.log(`line ${number}`); };
  await house.worker().handle("one", talk).run({ untilIdle: true, signals: false });
  const { logs: [log] } = await house.api("GET", `/v1/jobs/${id}/log`);
  const said = Array.from({ length: 20_000 }, (_, number) => `line ${number}\n`).join("");
  assert.equal(log.dropped + log.text.length, said.length);
  assert.ok(log.text.length <= 64 * 1024 && said.endsWith(log.text) && log.text.startsWith("line "));
  assert.deepEqual((await house.api("GET", "/v1/workers")).workers, []);
});

test("what it said before is not written over what it says later", async (t) => {
  const house = await House.open(t);
  let held = 1_500; // the first write arrives late
  const relay = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    if (request.url.endsWith("/log") && held) await new Promise((wake) => setTimeout(wake, held, (held = 0)));
    const { method, headers: { authorization } } = request;
    const body = method === "GET" ? undefined : Buffer.concat(parts);
    const headers = { authorization, "content-type": "application/json" };
    const answer = await fetch(house.url + request.url, { method, headers, body });
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  });
  await new Promise((done) => relay.listen(0, "127.0.0.1", done));
  t.after(() => relay.close());
  const worker = new Worker({ urls: `http://127.0.0.1:${relay.address().port}`, token: TOKEN });
  worker.handle("one", async (ctx) => {
    ctx.log("one");
    await ctx.sleep(1_200);
    ctx.log("two");
    await ctx.sleep(2_000);
  });
  const { id } = await house.client.enqueue("one", null);
  await worker.run({ untilIdle: true, signals: false });
  const { logs: [log] } = await house.api("GET", `/v1/jobs/${id}/log`);
  assert.deepEqual([held, log.text], [0, "one\ntwo\n"]);
});

test("nothing is a result, too", async (t) => {
  const job = await one(t, () => {});
  assert.deepEqual([job.state, job.result], ["completed", null]);
});

test("an error climbs the ladder", async (t) => {
  const handler = (ctx) => {
    if (ctx.attempt < 3) throw new TypeError("shop");
    return "third time";
  };
  const job = await one(t, handler, null, { retry: { ladder: "10ms 20ms" } });
  assert.deepEqual([job.state, job.result, job.attempt], ["completed", "third time", 3]);
  assert.equal(job.attempts[0].error, "TypeError: shop");
});

test("the last attempt is failed", async (t) => {
  const job = await one(t, () => Promise.reject(new Error("always")), null, { retry: { ladder: "none" } });
  assert.deepEqual([job.state, job.failure_reason, job.error], ["failed", "exhausted", "Error: always"]);
});

test("permanent is failed at once", async (t) => {
  const handler = () => { throw new Permanent("no such shop"); };
  const job = await one(t, handler, null, { retry: { ladder: "1h" } });
  assert.deepEqual([job.state, job.attempt, job.error], ["failed", 1, "no such shop"]);
});

test("retry-after costs an attempt and park does not", async (t) => {
  const said = [new RetryAfter(50, "busy"), new Park("50ms")];
  const handler = (ctx) => {
    if (said.length) throw said.shift();
    return ctx.attempt;
  };
  const job = await one(t, handler, null, { retry: { ladder: "1h 1h" } });
  assert.deepEqual([job.state, job.result], ["completed", 2]);
  assert.deepEqual(job.attempts.map((attempt) => attempt.outcome), ["retrying", "parked", "completed"]);
});

test("what is no JSON and what is too large fail", async (t) => {
  const circle = {};
  circle.circle = circle;
  const job = await one(t, () => circle, null, { retry: { ladder: "1h" } });
  assert.equal(job.state, "failed");
  assert.match(job.error, /cannot be written as JSON/);
  const large = await one(t, () => "x".repeat(100_000), null, { retry: { ladder: "1h" } });
  assert.equal(large.state, "failed");
  assert.match(large.error, /refused/);
});

test("a step is not run twice", async (t) => {
  const ran = [];
  const handler = async (ctx) => {
    const first = await ctx.step("first", () => (ran.push("first"), { n: 1 }));
    first.n += 100; // Its own copy.
    await ctx.step("zwölf/2 %", async () => void ran.push("second"));
    if (ctx.attempt === 1) throw new Error("half-way");
    return ctx.step("first", () => ran.push("again"));
  };
  const job = await one(t, handler, null, { retry: { ladder: "1ms" } });
  assert.deepEqual([job.state, job.result, ran], ["completed", { n: 1 }, ["first", "second"]]);
  assert.deepEqual(job.steps.map((step) => step.name), ["first", "zwölf/2 %"]);
});

test("progress is seen while it runs, and a cancel aborts the signal", async (t) => {
  const house = await House.open(t);
  const heard = [];
  house.begin(house.worker().handle("one", async (ctx) => {
    await ctx.progress({ done: 3, of: 10 });
    try {
      // What takes a signal is stopped by it.
      await new Promise((_, stop) => ctx.signal.addEventListener("abort", () => stop(new DOMException("x", "AbortError"))));
    } finally {
      heard.push(ctx.canceled, ctx.signal.reason instanceof Canceled);
    }
  }));
  const { id } = await house.client.enqueue("one");
  const job = await eventually("progress", async () => (await house.job(id)).progress && house.job(id));
  assert.deepEqual([job.state, job.progress], ["running", { done: 3, of: 10 }]);
  assert.equal(await house.client.cancel(id), "cancel_requested");
  await house.untilState(id, "canceled");
  assert.deepEqual(heard, [true, true]);
});

test("a handler that does not listen is settled without", async (t) => {
  const house = await House.open(t);
  let go;
  const gone = new Promise((done) => (go = done));
  const tried = [];
  house.begin(house.worker().handle("one", async (ctx) => {
    await gone;
    await ctx.step("late", () => tried.push("ran")).catch((error) => tried.push(error.name));
  }));
  const { id } = await house.client.enqueue("one");
  await house.untilState(id, "running");
  await house.client.cancel(id);
  const { fence } = await house.untilState(id, "canceled");
  go();
  await eventually("it comes back", () => tried.length);
  const after = await house.job(id);
  assert.deepEqual([tried, after.steps, after.fence], [["Canceled"], [], fence]);
});

test("a timeout is tried again", async (t) => {
  const job = await one(t, (ctx) => ctx.sleep("30s"), null, { timeout: "300ms", retry: { ladder: "none" } });
  assert.deepEqual([job.state, job.error], ["failed", "timed out after 300ms"]);
});

test("a budget is spent and cools down", async (t) => {
  const house = await House.open(t);
  await house.api("PUT", "/v1/budgets/etsy", { per_second: 2 });
  const times = [];
  house.begin(house.worker().handle("one", async (ctx) => {
    for (let n = 0; n < 3; n += 1) {
      await ctx.spend("etsy");
      times.push(performance.now());
    }
    await ctx.coolDown("etsy", "1h");
  }));
  await house.client.wait((await house.client.enqueue("one")).id, "20s");
  assert.ok(times[2] - times[0] > 500, String(times));
  assert.ok((await house.api("GET", "/v1/budgets/etsy")).cooling_until);
});

test("leases are renewed while the event loop is blocked", async (t) => {
  const house = await House.open(t);
  await house.queue({ lease_ms: 1000 });
  house.begin(house.worker().handle("one", () => {
    const until = performance.now() + 3_000;
    let n = 0;
    while (performance.now() < until) n += 1;
    return n > 0;
  }));
  const { id } = await house.client.enqueue("one");
  assert.equal(await house.client.wait(id, "20s"), true);
  const job = await house.job(id);
  assert.deepEqual([job.fence, job.crashes], [1, 0]);
});

test("stop gives back what runs, and an idle worker ends at once", async (t) => {
  const house = await House.open(t);
  const worker = house.worker().handle("one", async (ctx) => {
    await ctx.step("begun", () => 1);
    await ctx.sleep("1m");
  });
  const run = house.begin(worker);
  const { id } = await house.client.enqueue("one");
  await eventually("its step is stored", async () => (await house.job(id)).steps.length);
  const began = Date.now();
  worker.stop();
  assert.deepEqual(await run, { claimed: 1, settled: 1, lost: 0 });
  assert.ok(Date.now() - began < 8_000);
  const job = await house.job(id);
  assert.deepEqual([job.state, job.attempt, job.steps.length], ["queued", 0, 1]);
});

test("until idle", async (t) => {
  const house = await House.open(t);
  await house.client.enqueueMany(Array.from({ length: 25 }, (_, n) => ({ kind: "one", payload: n })));
  const worker = house.worker({ slots: 4 }).handle("one", (ctx) => ctx.payload);
  assert.deepEqual(await worker.run({ untilIdle: true, signals: false }), { claimed: 25, settled: 25, lost: 0 });
  await assert.rejects(house.worker().run(), TypeError);
});
