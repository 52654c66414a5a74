// A real server of its own for each test: the program named by WINDLASS_BIN, on SQLite and a free loopback port.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, Worker } from "../dist/windlass.js";

export const TOKEN = "token-of-the-tests-0123456789abcdef";
const PROGRAM = fileURLToPath(new URL("./worker_program.mjs", import.meta.url));

/** The program under test. Tests never skip: without it they fail. */
function binary() {
  const named = process.env.WINDLASS_BIN;
  if (!named || !existsSync(named)) throw new Error("set WINDLASS_BIN to the windlass program: cargo build --release");
  return resolve(named);
}

export function freePort() {
  return new Promise((done) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
}

/** Looks until there is something, and fails when there is nothing for long. */
export async function eventually(what, look, seconds = 25) {
  const until = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < until, `not in ${seconds} s: ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

/** A server, a client for it, and workers in processes of their own; all of them end with the test. */
export class House {
  processes = [];
  workers = [];

  static async open(t) {
    const house = new House();
    house.folder = mkdtempSync(join(tmpdir(), "windlass-sdk-"));
    t.after(() => house.close());
    house.port = await freePort();
    house.url = `http://127.0.0.1:${house.port}`;
    await house.startServer();
    house.client = new Client({ urls: house.url, token: TOKEN });
    return house;
  }

  async startServer() {
    const store = `sqlite:${join(this.folder, "jobs.db")}`;
    this.server = this.start(binary(), ["serve", "--listen", `127.0.0.1:${this.port}`, "--store", store], "server.log");
    await eventually("the server answers", async () => {
      assert.equal(this.server.exitCode, null, this.text("server.log"));
      return fetch(`${this.url}/readyz`).then((response) => response.ok, () => false);
    });
  }

  async kill(child, signal = "SIGKILL") {
    const ended = new Promise((done) => child.once("exit", (code) => done(code)));
    child.kill(signal);
    return ended;
  }

  start(program, args, log, env = {}) {
    const out = openSync(join(this.folder, log), "a");
    const child = spawn(program, args, {
      cwd: this.folder,
      stdio: ["ignore", out, out],
      env: { ...process.env, WINDLASS_TOKEN: TOKEN, ...env },
    });
    closeSync(out);
    this.processes.push(child);
    return child;
  }

  /** A worker of `worker_program.mjs`. */
  startWorker({ url = this.url, ...env } = {}) {
    return this.start(process.execPath, [PROGRAM, this.folder], "worker.log", { WINDLASS_URL: url, ...env });
  }

  /** A worker on this event loop, which runs beside the test. */
  begin(worker) {
    const run = worker.run({ signals: false });
    run.catch(() => {});
    this.workers.push({ worker, run });
    return run;
  }

  worker(options = {}) {
    return new Worker({ urls: this.url, token: TOKEN, grace: 500, renewEvery: 200, log: () => {}, ...options });
  }

  async close() {
    for (const { worker } of this.workers) worker.stop();
    await Promise.allSettled(this.workers.map(({ run }) => run));
    for (const child of this.processes) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGCONT");
      await this.kill(child);
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  async api(method, path, body) {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    assert.ok(response.ok, `${method} ${path}: ${response.status}`);
    return response.json();
  }

  queue(policy) {
    return this.api("PUT", "/v1/queues/default", policy);
  }

  async job(id) {
    const job = await this.client.get(id);
    assert.ok(job, `job ${id} is lost`);
    return job;
  }

  untilState(id, state) {
    return eventually(`job ${id} is ${state}`, async () => {
      const job = await this.job(id);
      return job.state === state && job;
    });
  }

  /** How many jobs are not over. */
  async depth() {
    const { queues } = await this.api("GET", "/v1/queues");
    return queues.reduce((sum, queue) => sum + queue.depth + queue.running, 0);
  }

  text(name) {
    const file = join(this.folder, name);
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  }

  lines(name) {
    return this.text(name).split("\n").filter(Boolean);
  }
}

/** Keeps the first claim to itself, as a server does that was frozen, and passes everything else on. */
export async function lateProxy(t, to) {
  const proxy = { claims: 0, underWay: 0, open: Promise.resolve() };
  const server = createServer((caller) => {
    const upstream = connect(to, "127.0.0.1");
    const close = () => (caller.destroy(), upstream.destroy());
    for (const socket of [caller, upstream]) socket.on("error", close).on("close", close);
    let claiming = false;
    caller.on("data", whole(async (message) => {
      claiming = message.toString("latin1").startsWith("POST /v1/claim ");
      if (claiming && !proxy.late) {
        proxy.late = message;
        return close();
      }
      if (claiming) {
        proxy.claims += 1;
        await proxy.open;
        proxy.underWay += 1;
      }
      upstream.write(message);
    }));
    upstream.on("data", whole((message) => {
      if (claiming) proxy.underWay -= 1;
      caller.write(message);
    }));
  });
  t.after(() => server.close());
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  /** Carries out the first claim; nobody hears what it gave. */
  proxy.carryOut = () => new Promise((done, fail) => {
    const socket = connect(to, "127.0.0.1", () => socket.write(proxy.late)).on("error", fail);
    socket.on("data", whole((message) => (socket.destroy(), done(message.toString("latin1")))));
  });
  return proxy;
}

/** Passes calls on, and swallows every third answer: the connection just ends. */
export async function forgetfulProxy(t, to, every = 3) {
  const proxy = { calls: 0, swallowed: 0 };
  const server = createServer((caller) => {
    const upstream = connect(to, "127.0.0.1");
    const close = () => (caller.destroy(), upstream.destroy());
    for (const socket of [caller, upstream]) socket.on("error", close).on("close", close);
    caller.on("data", (data) => upstream.write(data));
    upstream.on("data", whole((message) => {
      proxy.calls += 1;
      if (proxy.calls % every) return caller.write(message);
      proxy.swallowed += 1;
      close();
    }));
  });
  t.after(() => server.close());
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  return proxy;
}

/** Puts answers together with their bodies. */
function whole(pass) {
  let gathered = Buffer.alloc(0);
  return (data) => {
    gathered = Buffer.concat([gathered, data]);
    const head = gathered.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(/content-length: *(\d+)/i.exec(gathered.subarray(0, head).toString())?.[1] ?? 0);
    if (gathered.length < head + 4 + length) return;
    const message = gathered.subarray(0, head + 4 + length);
    gathered = gathered.subarray(head + 4 + length);
    pass(message);
  };
}
