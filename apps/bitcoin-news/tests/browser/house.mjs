// The program with a fresh store, a browser, and documents to fill the store with.

import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const SENTIMENTS = ["positive", "negative", "neutral"];

/** A folder with a store; verbs run in it. */
export async function openStore(env = {}) {
  const folder = await mkdtemp(join(tmpdir(), "windlass-bitcoin-news-"));
  const all = { PATH: process.env.PATH, HOME: folder, WINDLASS_STORE: `sqlite:${join(folder, "news.db")}`, ...env };
  const run = async (...args) => {
    const { stdout } = await promisify(execFile)(need("WINDLASS_BIN"), ["bitcoin-news", ...args], { cwd: folder, env: all });
    return stdout;
  };
  const json = async (...args) => JSON.parse(await run(...args, "--json"));
  const fill = async (documents) => {
    await writeFile(join(folder, "dump.json"), JSON.stringify(documents));
    return json("import", "dump.json");
  };
  const close = () => rm(folder, { recursive: true, force: true });
  return { folder, env: all, run, json, fill, close };
}

/** The feed of a store, served. */
export async function serve(store) {
  const args = ["bitcoin-news", "api", "--listen", "127.0.0.1:0"];
  const child = spawn(need("WINDLASS_BIN"), args, { cwd: store.folder, env: store.env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (line) => line.match(/http:\/\/[^/]+/) && resolve(line.match(/http:\/\/[^/]+/)[0]));
    ended.then((code) => reject(new Error(`the program ended with ${code}`)));
  });
  const close = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { url, close };
}

/** Articles of before: every third of a sentiment, the newest two not done yet. */
export function documents(count, now = Date.now()) {
  const article = (number) => ({
    article_id: `a${number}`,
    title: number === 3 ? "<img src=x onerror=alert(1)> & <script>alert(2)</script>" : `Bitcoin report ${number}`,
    description: `What report ${number} says about Bitcoin, its price, and those who trade it, in two or three lines of text that are cut.`,
    link: `https://news.example/articles/${number}`,
    pubDate: new Date(now - (count - number) * 3_600_000).toISOString().slice(0, 19).replace("T", " "),
    source_name: "The Paper",
    source_url: "https://paper.example/",
    needsSentiment: number > count - 2,
    needsSummary: number > count - 2,
    ...(number <= count - 2 && { sentiment: SENTIMENTS[number % 3], aiSummary: `Report ${number} in short: the price moved.` }),
  });
  const all = Array.from({ length: count }, (_, at) => article(at + 1));
  return Object.fromEntries(all.map((one) => [`article:${one.article_id}`, one]));
}

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

export function need(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests by ./test, which sets it`);
  return value;
}
