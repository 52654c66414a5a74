// A server of its own with a fresh file, and a browser of its own, for tests.

import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { MongoClient } from "mongodb";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/** Starts `windlass serve` and waits until it says where. */
export async function openHouse({ token, sample = false } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "windlass-browser-"));
  const args = ["serve", "--listen", "127.0.0.1:0", "--store", `sqlite:${join(folder, "windlass.db")}`];
  if (sample) args.push("--sample");
  const env = { PATH: process.env.PATH, HOME: folder, ...(token && { WINDLASS_TOKEN: token }) };
  const child = spawn(need("WINDLASS_BIN"), args, { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (line) => line.match(/http:\/\/\S+/) && resolve(line.match(/http:\/\/\S+/)[0]));
    ended.then((code) => reject(new Error(`windlass serve ended with ${code}`)));
  });
  const call = async (method, path, body) => {
    const headers = { ...(body && { "content-type": "application/json" }), ...(token && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  const close = async () => {
    child.kill("SIGTERM");
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  return { url, pid: child.pid, call, close, enqueue: (job) => call("POST", "/v1/jobs", job) };
}

/** Starts `windlass demo` and waits until it says where its page is. The program with everything, where there is one. */
export async function openDemo() {
  const folder = await mkdtemp(join(tmpdir(), "windlass-demo-"));
  const args = ["demo", "--speed", "10", "--port", "0", "--folder", join(folder, "demo")];
  const { DATABASE_URL, MONGODB_URI, ...env } = process.env;
  const program = process.env.WINDLASS_FULL_BIN ?? need("WINDLASS_BIN");
  const child = spawn(program, args, { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (line) => line.includes("all workers on one page") && resolve(line.match(/http:\/\/[^/\s]+\/?\S*/)[0]));
    ended.then((code) => reject(new Error(`windlass demo ended with ${code}`)));
  });
  const close = async () => {
    child.kill("SIGINT");
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  return { url, close };
}

/** A replica set of one node with listeners in every state, and the program that serves their page. */
export async function openListeners({ token } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "windlass-listeners-"));
  const port = await freePort();
  const mongod = spawn(need("WINDLASS_TEST_MONGOD"), [
    "--replSet", "browser", "--bind_ip", "127.0.0.1", "--nounixsocket", "--port", port, "--dbpath", folder, "--quiet",
    "--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "50", "--logpath", join(folder, "log"),
  ], { stdio: ["ignore", "ignore", "inherit"] });
  const gone = new Promise((resolve) => mongod.once("exit", resolve));
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true`, { serverSelectionTimeoutMS: 60_000 });
  await client.db("admin").command({ replSetInitiate: { _id: "browser", members: [{ _id: 0, host: `127.0.0.1:${port}` }] } });
  while (!(await client.db("admin").command({ hello: 1 })).isWritablePrimary);
  const env = {
    PATH: process.env.PATH, HOME: folder, MONGODB_URI: `mongodb://127.0.0.1:${port}`, MONGODB_PARAMS: "replicaSet=browser",
    LISTENER_LISTEN: "127.0.0.1:0", ...(token && { LISTENER_TOKEN: token }),
  };
  const program = need("WINDLASS_FULL_BIN");
  const run = (...words) => promisify(execFile)(program, ["listener", ...words], { cwd: folder, env });
  await run("init");
  const child = spawn(program, ["listener"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (line) => line.includes("has started") && resolve(`http://${line.match(/127\.0\.0\.1:\d+/)[0]}`));
    ended.then((code) => reject(new Error(`windlass listener ended with ${code}`)));
  });
  const close = async () => {
    child.kill("SIGTERM");
    await ended;
    await client.close();
    mongod.kill("SIGTERM");
    await gone;
    await rm(folder, { recursive: true, force: true });
  };
  return { url, run, database: (name) => client.db(name), close };
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** One browser for all tests of a file. */
export function openBrowser() {
  return chromium.launch({ executablePath: need("CHROMIUM"), args: FLAGS });
}

/** A page that remembers everything that went wrong on it. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.wrongs = [];
  page.on("console", (said) => ["error", "warning"].includes(said.type()) && page.wrongs.push(said.text()));
  page.on("pageerror", (error) => page.wrongs.push(error.message));
  page.on("dialog", (dialog) => {
    page.wrongs.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.setDefaultTimeout(15_000);
  return page;
}

/** Waits until the page hears the events. */
export async function live(page) {
  await page.locator("#live", { hasText: "live" }).waitFor();
}

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What is wrong on a page, by the rules of axe. */
export async function violations(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html).join(" ")}`);
}

function need(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests by ./test, which sets it`);
  return value;
}

/** Where one of `names` is shown with a line that ends elsewhere than behind a dot of it; in a sentence, its hyphens are as any. */
export function brokenNames(page, names) {
  return page.evaluate((names) => {
    const found = [];
    for (const cell of document.querySelectorAll("main :is(td, dd, p, li, h1)")) {
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      const letters = [];
      while (walker.nextNode()) for (let at = 0; at < walker.currentNode.length; at++) letters.push([walker.currentNode, at]);
      const text = letters.map(([node, at]) => node.data[at]).join("");
      const isSentence = text.split(/[^,\s] /).length > 4;
      const joints = isSentence ? ".-" : ".";
      const top = ([node, at]) => {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect().top;
      };
      for (const name of names) {
        for (let from = text.indexOf(name); from >= 0; from = text.indexOf(name, from + 1)) {
          for (let at = from + 1; at < from + name.length; at++) {
            if (!joints.includes(text[at - 1]) && top(letters[at]) > top(letters[at - 1])) found.push(`${text.slice(from, at)}|${text.slice(at, from + name.length)}`);
          }
        }
      }
    }
    return found;
  }, names);
}
