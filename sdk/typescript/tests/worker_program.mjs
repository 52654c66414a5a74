// A worker in a process of its own, for tests that kill it: worker_program.mjs FOLDER
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "../dist/windlass.js";

const folder = process.argv[2];
const note = (name, line) => appendFileSync(join(folder, name), line + "\n");
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));
const worker = new Worker({ slots: Number(process.env.SLOTS ?? 8) });

worker.handle("count", async (ctx) => {
  note("runs", ctx.id);
  const n = await ctx.step("first", () => ctx.payload.n + 1);
  await pause(10);
  return ctx.step("second", () => n * 2);
});

// Goes on when it is let go, listening to nobody meanwhile.
worker.handle("hold", async (ctx) => {
  note("holding", process.pid);
  while (!existsSync(join(folder, `go-${process.pid}`))) await pause(20);
  note("stepped", process.pid);
  await ctx.step("late", () => process.pid);
  return "done by " + process.pid;
});

worker.handle("listen", async (ctx) => {
  note("listening", ctx.id);
  await ctx.step("begun", () => true);
  await ctx.sleep("1m");
});

const { claimed, settled, lost } = await worker.run();
note("summaries", `${claimed}/${settled}/${lost}`);
