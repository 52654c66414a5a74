/**
 * Windlass for Node: enqueue durable jobs, and work on them. One file, no dependencies.
 *
 *     import { Worker } from "windlass";
 *
 *     const worker = new Worker();            // WINDLASS_URL, WINDLASS_TOKEN
 *     worker.handle("resize", async (ctx) => {
 *       return { name: ctx.payload.image.toUpperCase() };
 *     });
 *     await worker.run();                     // until SIGTERM or SIGINT
 *
 * Every call may be repeated without harm: jobs and claims carry ids that are made here, and what a worker
 * writes carries its fence. So a call whose answer was lost is simply made again, to the next of the servers.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";

const VERSION = "0.1.0";
const DEFAULT_URL = "http://127.0.0.1:7717";
const LOG_BYTES_MAX = 64 * 1024; // of what an attempt said, the end is kept
const LOG_MS = 1_000;
const LOG_CALL_MS = 2_000; // for how long the end of an attempt waits for what it said
const LOG_PAUSE_MS = 10_000; // nothing is written for so long after that went wrong
const CALL_MS = 35_000; // the server ends a call after 30 s by itself
const CLAIM_WAIT_MS = 30_000;
/** A claim whose answer was lost may be carried out for so long. */
const DOUBT_MS = 60_000;
/** What it then gives is asked for this often. */
const DOUBT_WAIT_MS = 1_000;
const CLAIM_MAX = 100;
const ERROR_CHARS_MAX = 8_000; // the server cuts errors at 8 KiB

/** A length of time: milliseconds, or a text such as `700ms`, `30s`, `5m`, `2h`, `1d`. */
export type Span = number | string;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type State = "queued" | "running" | "completed" | "failed" | "canceled";

// What can go wrong -------------------------------------------------------------------------------------------

/** The server refused, and nothing was changed. `code` never changes, and is for programs. */
export class Refused extends Error {
  override name = "Refused";
  constructor(readonly status: number, readonly code: string, message: string, readonly details: Record<string, any> = {}) {
    super(`${message} (${status} ${code})`);
  }
}

/** No server answered in time: whether anything changed is unknown. Asking again with the same ids is harmless. */
export class Unavailable extends Error {
  override name = "Unavailable";
}

/** The job that was waited for has failed. */
export class JobFailed extends Error {
  override name = "JobFailed";
  constructor(readonly job: Job) {
    super(`job ${job.id} failed (${job.failure_reason}): ${job.error}`);
  }
}

/** The job that was waited for was canceled. */
export class JobCanceled extends Error {
  override name = "JobCanceled";
  constructor(readonly job: Job) {
    super(`job ${job.id} was canceled`);
  }
}

/** The job that was waited for is not over in time. */
export class NotOver extends Error {
  override name = "NotOver";
}

// How a handler says that it did not succeed -------------------------------------------------------------------

/** Try again after so long, instead of the ladder's delay. Costs an attempt. */
export class RetryAfter extends Error {
  override name = "RetryAfter";
  constructor(readonly after: Span, message?: string) {
    super(message ?? `try again in ${span(after)}`);
  }
}

/** Go on after so long. Costs no attempt. */
export class Park extends Error {
  override name = "Park";
  constructor(readonly after: Span, message?: string) {
    super(message ?? `parked for ${span(after)}`);
  }
}

/** Trying again is of no use: the job is failed. */
export class Permanent extends Error {
  override name = "Permanent";
}

// How a handler is told to stop --------------------------------------------------------------------------------

/** The attempt is to end; the reason of `ctx.signal`. */
export class Stop extends Error {
  override name: string = "Stop";
}
/** Somebody canceled the job. */
export class Canceled extends Stop {
  override name = "Canceled";
}
/** The worker ends: the job is given back, which costs no attempt. */
export class ShuttingDown extends Stop {
  override name = "ShuttingDown";
}
/** The attempt took longer than the job's `timeout`. */
export class TimedOut extends Stop {
  override name = "TimedOut";
}
/** The job belongs to somebody else now, or to nobody. Nothing of this attempt is written any more. */
export class LeaseLost extends Stop {
  override name = "LeaseLost";
}

// What is known of jobs ----------------------------------------------------------------------------------------

/** A job as the server shows it. Times are RFC 3339 texts, durations texts such as `30s`. */
export interface Job<P = any, R = any> {
  id: string;
  kind: string;
  queue: string;
  state: State;
  payload: P;
  priority: number;
  key: string | null;
  dedupe_key: string | null;
  budgets: string[];
  retry: { ladder: string; max_attempts: number | null } | null;
  timeout: string | null;
  meta: any;
  run_at: string;
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
  attempt: number;
  crashes: number;
  retries: number;
  fence: number;
  failure_reason: string | null;
  error: string | null;
  worker: string | null;
  lease: { worker: string; fence: number; expires_at: string; lease_ms: number; cancel_requested: boolean } | null;
  progress: any;
  result: R | null;
  folded: string[];
  steps: { name: string; output: any; attempt: number; stored_at: string }[];
  attempts?: { attempt: number; fence: number; outcome: string; error: string | null; worker: string | null }[];
  timeline?: { at: string; what: string }[];
}

/** What may be said of a new job; what is left out has its queue's default. */
export interface Options {
  id?: string;
  queue?: string;
  priority?: number;
  delay?: Span;
  run_at?: Date | string;
  key?: string;
  dedupe_key?: string;
  budgets?: string[];
  retry?: { ladder: string; max_attempts?: number };
  timeout?: Span;
  meta?: unknown;
}

/** A job for `enqueueMany`. */
export interface NewJob extends Options {
  kind: string;
  payload?: unknown;
}

/** A job that was accepted and is durable, or was there before by its id or its dedupe key. */
export interface Enqueued {
  id: string;
  deduplicated: boolean;
}

/** Which servers, and how to show who one is. */
export interface Place {
  /** WINDLASS_URL when left out; several are tried in turn. */
  urls?: string | string[];
  /** WINDLASS_TOKEN when left out. */
  token?: string;
}

// Calls --------------------------------------------------------------------------------------------------------

interface CallOptions {
  within?: number;
  timeout?: number;
  signal?: AbortSignal;
  giveUp?: () => boolean;
}

/** Calls to the first of several servers that answers. */
class Servers {
  readonly bases: string[];
  readonly headers: Record<string, string>;
  private first = 0;

  constructor({ urls, token = process.env.WINDLASS_TOKEN }: Place) {
    const named = urls ?? (process.env.WINDLASS_URL || DEFAULT_URL);
    const listed = (typeof named === "string" ? named.split(",") : named).map((url) => url.trim()).filter(Boolean);
    if (listed.length === 0) throw new TypeError("no server is named; set WINDLASS_URL, such as " + DEFAULT_URL);
    this.bases = listed.map(base);
    // The server shows with what a worker works, and on which machine.
    const agent = `windlass-node/${VERSION} (${hostname().replace(/[^\w.:-]/g, "")})`;
    this.headers = { "content-type": "application/json", "user-agent": agent };
    if (token) this.headers.authorization = `Bearer ${token}`;
  }

  /** Asks until there is an answer: for `within` milliseconds, or until `giveUp`. `body` is JSON already. */
  async call<T>(method: string, path: string, body?: string, options: CallOptions = {}): Promise<T> {
    const { within = 30_000, timeout = CALL_MS, signal, giveUp } = options;
    const began = now();
    for (let pause = 50; ; pause = Math.min(pause * 2, 2_000)) {
      let why: unknown;
      let again = 0;
      try {
        const response = await this.once(method, path, body, timeout, signal);
        if (response.ok) return response.answer as T;
        const refused = refusal(response.status, response.answer);
        if (response.status < 500 && response.status !== 408 && response.status !== 429) throw refused;
        again = response.again;
        why = refused;
      } catch (error) {
        if (error instanceof Refused) throw error;
        why = error;
      }
      if (now() - began + pause > within || giveUp?.() || signal?.aborted) {
        const said = why instanceof Error ? String((why.cause as Error | undefined)?.message || why.message) : String(why);
        throw new Unavailable(`${method} ${path}: ${said}; whether anything changed is unknown`, { cause: why });
      }
      await sleep(Math.max(pause * (0.5 + Math.random() / 2), again));
    }
  }

  private async once(method: string, path: string, body: string | undefined, timeout: number, signal?: AbortSignal) {
    const place = this.first;
    const ended = new AbortController();
    const end = () => ended.abort(new Error("no answer in time"));
    const timer = setTimeout(end, timeout);
    signal?.addEventListener("abort", end);
    try {
      if (signal?.aborted) end();
      const response = await fetch(this.bases[place] + path, { method, headers: this.headers, body, signal: ended.signal });
      const text = await response.text();
      if (response.status >= 500) this.first = (place + 1) % this.bases.length;
      const seconds = Number(response.headers.get("retry-after") ?? 0);
      return { status: response.status, ok: response.ok, answer: parse(text, response.ok), again: seconds * 1000 || 0 };
    } catch (error) {
      this.first = (place + 1) % this.bases.length; // The next one may be alive.
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
    }
  }
}

/** Enqueues jobs and looks at them. */
export class Client {
  private readonly servers: Servers;
  private readonly within: number;

  /** `patience`: for how long a call is repeated while no server answers; 30 s when left out. */
  constructor({ patience = 30_000, ...place }: Place & { patience?: Span } = {}) {
    this.servers = new Servers(place);
    this.within = ms(patience);
  }

  /** Accepts a job. When this resolves it is durable. */
  async enqueue(kind: string, payload?: unknown, options: Options = {}): Promise<Enqueued> {
    const wish = newJob({ ...options, kind, payload });
    const answer = await this.call<Enqueued>("POST", "/v1/jobs", wish);
    return enqueued(answer, wish.id, options.id !== undefined);
  }

  /** Accepts up to 10,000 jobs, all or none. */
  async enqueueMany(jobs: NewJob[]): Promise<Enqueued[]> {
    if (jobs.length === 0) return [];
    const wishes = jobs.map(newJob);
    const { jobs: answers } = await this.call<{ jobs: Enqueued[] }>("POST", "/v1/jobs/batch", { jobs: wishes });
    return answers.map((answer, at) => enqueued(answer, wishes[at]!.id, jobs[at]!.id !== undefined));
  }

  /** The job with all that is known of it; undefined when there is none. */
  async get<P = any, R = any>(id: string): Promise<Job<P, R> | undefined> {
    try {
      return await this.call<Job<P, R>>("GET", `/v1/jobs/${part(id)}`);
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return undefined;
      throw error;
    }
  }

  /** What the job gave, as soon as it is over. Throws JobFailed, JobCanceled, or NotOver after `timeout`. */
  async wait<R = any>(id: string, timeout?: Span): Promise<R> {
    const until = timeout === undefined ? Infinity : now() + ms(timeout);
    for (;;) {
      const left = Math.floor(Math.max(0, Math.min(30_000, until - now())));
      const path = `/v1/jobs/${part(id)}?wait=${left}ms`;
      const options = { within: this.within, timeout: left + CALL_MS };
      const job = await this.servers.call<Job<any, R>>("GET", path, undefined, options);
      if (job.state === "completed") return job.result as R;
      if (job.state === "failed") throw new JobFailed(job);
      if (job.state === "canceled") throw new JobCanceled(job);
      if (now() >= until) throw new NotOver(`job ${id} is ${job.state} after ${span(timeout!)}`);
    }
  }

  /** Cancels a job: `canceled` at once when it was queued, `cancel_requested` when it runs, `final` when over. */
  async cancel(id: string): Promise<"canceled" | "cancel_requested" | "final"> {
    try {
      type Answer = { outcome: "canceled" | "cancel_requested" };
      return (await this.call<Answer>("POST", `/v1/jobs/${part(id)}/cancel`)).outcome;
    } catch (error) {
      if (!(error instanceof Refused && error.code === "final")) throw error;
    }
    // It may have been this very call that canceled it, if the first answer was lost.
    return (await this.get(id))?.state === "canceled" ? "canceled" : "final";
  }

  /** Starts a new life of a final job. Its stored steps stay. */
  async retry(id: string): Promise<void> {
    await this.call("POST", `/v1/jobs/${part(id)}/retry`);
  }

  /** Why the job is not running. */
  async explain(id: string): Promise<{ status: string; [more: string]: any }> {
    return (await this.call<{ explanation: any }>("GET", `/v1/jobs/${part(id)}/explain`)).explanation;
  }

  private call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return this.servers.call<T>(method, path, text, { within: this.within });
  }
}

// One attempt --------------------------------------------------------------------------------------------------

interface Leased {
  job: Job;
  fence: number | string;
  retry_delay_ms: number | null;
  ticket?: string;
}

type Outcome = { outcome: string; result?: unknown; error?: string; delay?: string };

/** What a handler gets: the job, and what it may say of it. */
export class Context<P = any> {
  readonly job: Job<P>;
  /** Aborted when the attempt is to end; the reason is a Stop: Canceled, ShuttingDown, TimedOut or LeaseLost. */
  readonly signal: AbortSignal;
  /** @internal */ readonly fenceText: string;
  /** By what a write is taken: the fence and, if the claim gave one, the ticket, as part of an object. @internal */
  readonly right: string;
  /** @internal */ readonly ladderMs: number | null;
  /** @internal */ readonly leaseMs: number;
  /** @internal */ heldAt: number;
  /** A lost history of the store may have given the job to somebody else until then. */
  private stillUntil = 0;
  /** @internal */ ended = false;
  /** @internal */ gone = false;
  /** @internal */ timers: NodeJS.Timeout[] = [];
  private readonly control = new AbortController();
  private readonly outputs: Map<string, string>;
  private readonly waiting = new Set<() => void>();
  private said = "";
  private saidBefore = 0;
  private saying: NodeJS.Timeout | undefined; // there while something is not written
  private writing: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(private readonly worker: Worker, private readonly servers: Servers, leased: Leased, fresh: boolean) {
    this.job = leased.job as Job<P>;
    this.signal = this.control.signal;
    this.fenceText = String(leased.fence);
    this.right = `"fence":${this.fenceText}` + (leased.ticket ? `,"ticket":${JSON.stringify(leased.ticket)}` : "");
    this.ladderMs = leased.retry_delay_ms;
    this.leaseMs = leased.job.lease?.lease_ms ?? 30_000;
    // Of an answer that was asked for twice nobody knows how old the lease is: it is renewed before anything begins.
    this.heldAt = fresh ? now() : -Infinity;
    this.outputs = new Map(leased.job.steps.map((step) => [step.name, JSON.stringify(step.output)]));
  }

  /** The job's id: an idempotency key for what must happen once. */
  get id(): string {
    return this.job.id;
  }
  get payload(): P {
    return this.job.payload;
  }
  /** Rises with each claim of the job: for whatever can refuse a smaller number after a larger. */
  get fence(): number {
    return Number(this.fenceText);
  }
  /** Which attempt this is, from 1 on. */
  get attempt(): number {
    return this.job.attempt;
  }
  /** Whether somebody has canceled the job. */
  get canceled(): boolean {
    return this.signal.reason instanceof Canceled;
  }

  /** Throws when the attempt is to end; to be awaited now and then in a long loop. While it is not known whether the
   * lease is still held, this waits until a server has said so; and after a failover or a restore that may have lost
   * commits, for as long as one of these may have given the job to somebody else. */
  async goOn(): Promise<void> {
    for (;;) {
      this.signal.throwIfAborted();
      if (this.ended) throw new LeaseLost("the attempt is over");
      const held = now() - this.heldAt < (this.leaseMs * 2) / 3;
      const still = this.stillUntil - now();
      if (held && still <= 0) return;
      if (!held) this.worker.nudge();
      await changed(this.waiting, held ? Math.min(100, Math.ceil(still)) : 100);
    }
  }

  /** Sleeps; throws when the attempt is to end. */
  async sleep(time: Span): Promise<void> {
    await this.goOn();
    await new Promise<void>((wake) => {
      const timer = setTimeout(done, ms(time));
      const signal = this.signal;
      signal.addEventListener("abort", done);
      function done() {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        wake();
      }
    });
    await this.goOn();
  }

  /** Runs a stage and stores its output, or gives the output that an earlier attempt has stored. */
  async step<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    if (!this.outputs.has(name)) {
      await this.goOn();
      const output = json(`the output of the step ${JSON.stringify(name)}`, await run());
      await this.write(`/v1/jobs/${this.id}/steps/${part(name)}`, `{${this.right},"output":${output}}`);
      this.outputs.set(name, output);
    }
    return JSON.parse(this.outputs.get(name)!) as T; // A copy: what is stored does not change.
  }

  /** Says how far it is; any JSON of at most 8 KiB. A server that is away for long does not stop the work. */
  async progress(progress: unknown): Promise<void> {
    await this.goOn();
    const body = `{${this.right},"progress":${json("progress", progress)}}`;
    try {
      await this.write(`/v1/jobs/${this.id}/progress`, body, 5_000);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.worker.log(`progress of job ${this.id} was not stored: ${error.message}`);
    }
  }

  /** Keeps a line for people who look at the job; the last 64 KiB are kept. Written now and then and at the end of the
   * attempt; a server that is away does not stop the work. */
  log(line: unknown): void {
    this.said += `${String(line).replaceAll("\0", "\u2400")}\n`;
    if (this.said.length > 2 * LOG_BYTES_MAX) this.cutLog();
    this.saying ??= setTimeout(() => void this.writeLog(), LOG_MS).unref();
  }

  /** Leaves the end, in whole lines where there are any. */
  private cutLog(): void {
    const bytes = Buffer.from(this.said);
    const surplus = bytes.length - LOG_BYTES_MAX;
    if (surplus <= 0) return;
    const line = bytes.indexOf(10, surplus) + 1;
    let begin = line > 0 && line < bytes.length ? line : surplus;
    while (begin < bytes.length && (bytes[begin]! & 0xc0) === 0x80) begin += 1; // not within a letter
    this.saidBefore += begin;
    this.said = bytes.subarray(begin).toString();
  }

  /** Writes what is new, after the write before: an older text must not come later than a newer.
   * @internal */
  writeLog(): Promise<void> {
    this.writing = this.writing.then(() => this.putLog());
    return this.writing;
  }

  private async putLog(): Promise<void> {
    if (!this.saying || this.isOver()) return;
    clearTimeout(this.saying);
    this.saying = undefined;
    this.cutLog();
    const body = `{"fence":${this.fenceText},"dropped":${this.saidBefore},"text":${JSON.stringify(this.said)}}`;
    const giveUp = () => this.isOver();
    const options = { within: LOG_CALL_MS, timeout: LOG_CALL_MS, giveUp };
    await this.servers.call("PUT", `/v1/jobs/${this.id}/log`, body, options).catch(() => {
      this.saying ??= setTimeout(() => void this.writeLog(), LOG_PAUSE_MS).unref();
    });
  }

  /** Lets nothing of a budget be spent by anybody for so long, or until then: an upstream's Retry-After. */
  async coolDown(budget: string, until: Span | Date): Promise<void> {
    const wish = until instanceof Date ? { until: until.toISOString() } : { for: span(until) };
    const path = `/v1/budgets/${part(budget)}/cool-down`;
    await this.servers.call("POST", path, JSON.stringify(wish), { giveUp: () => this.isOver() });
  }

  /** Spends of a budget, and waits until it may. */
  async spend(budget: string, amount = 1): Promise<void> {
    for (;;) {
      await this.goOn();
      const path = `/v1/budgets/${part(budget)}/spend`;
      type Spent = { status: string; in_ms: number | null };
      const spent = await this.servers.call<Spent>("POST", path, JSON.stringify({ amount }), { giveUp: () => this.isOver() });
      if (spent.status === "granted") return;
      if (spent.status === "never") throw new Permanent(`the budget ${JSON.stringify(budget)} never allows ${amount}`);
      await this.sleep(Math.max(1, spent.in_ms ?? 0));
    }
  }

  /** A write of this attempt: repeated for as long as the job is ours. */
  private async write(path: string, body: string, within = Infinity): Promise<void> {
    try {
      await this.servers.call("PUT", path, body, { within, giveUp: () => this.isOver() });
    } catch (error) {
      if (error instanceof Refused && error.code === "lease_lost") {
        this.tell(new LeaseLost("the job is no longer held"));
        throw this.signal.reason;
      }
      if (error instanceof Refused) throw new Permanent(error.message, { cause: error });
      await this.goOn();
      throw error;
    }
  }

  private isOver(): boolean {
    return this.ended || this.signal.reason instanceof LeaseLost;
  }

  /** @internal Tells the handler to stop. What was told first stays. */
  tell(stop: Stop): void {
    if (!this.signal.aborted && !this.ended) this.control.abort(stop);
    this.wake();
  }

  /** @internal */
  renewed(at: number, stillMs: number): void {
    // Only an attempt whose lease was over, or nearly so, may have been given to somebody else.
    if (at - this.heldAt >= (this.leaseMs * 11) / 12) this.stillUntil = Math.max(this.stillUntil, now() + stillMs);
    this.heldAt = Math.max(this.heldAt, at);
    this.wake();
  }

  private wake(): void {
    for (const wake of this.waiting) wake();
  }
}

// The worker ---------------------------------------------------------------------------------------------------

export type Handler<P = any, R = unknown> = (ctx: Context<P>) => R | Promise<R>;

export interface WorkerOptions extends Place {
  /** `default` when left out. */
  queues?: string | string[];
  /** How many jobs run at once; 10 when left out. */
  slots?: number;
  name?: string;
  /** How long a handler that is told to stop is waited for; 10 s when left out. */
  grace?: Span;
  /** How often leases are renewed at least, and so how soon a cancel is heard of; 2 s when left out. */
  renewEvery?: Span;
  /** How long leases last, instead of what the queues say. */
  lease?: Span;
  /** Where trouble is told; the console's stderr when left out. */
  log?: (message: string) => void;
}

/** What a worker did in its life. */
export interface Summary {
  claimed: number;
  settled: number;
  lost: number;
}

/** Claims jobs and runs their handlers on this event loop, at most `slots` at once.
 *
 * Leases are renewed from a thread of their own, so a handler that blocks the event loop keeps its jobs. But while the
 * loop is blocked nothing else happens: no other job begins or ends, no cancel is heard. What computes for long belongs
 * into a worker thread of yours. */
export class Worker {
  readonly name: string;
  /** @internal */ readonly log: (message: string) => void;
  private readonly servers: Servers;
  private readonly options: Required<Pick<WorkerOptions, "slots">> & WorkerOptions;
  private readonly queues: string[];
  private readonly graceMs: number;
  private readonly handlers = new Map<string, Handler>();
  private readonly held = new Map<string, Context>();
  private readonly stopping = new AbortController();
  private running = 0;
  private readonly waiting = new Set<() => void>();
  private troubled = false;
  private keeper?: Thread;
  private answered = false;
  /** The claim that may still be carried out. */
  private doubt = { requestId: "", until: 0 };
  private failure?: unknown;
  private readonly summary: Summary = { claimed: 0, settled: 0, lost: 0 };

  constructor(options: WorkerOptions = {}) {
    this.options = { ...options, slots: options.slots ?? 10 };
    this.servers = new Servers(options);
    this.name = options.name ?? `node@${hostname()}/${process.pid}-${randomBytes(3).toString("hex")}`;
    this.log = options.log ?? ((message) => console.error(`windlass: ${message}`));
    this.queues = typeof options.queues === "string" ? [options.queues] : (options.queues ?? ["default"]);
    this.graceMs = ms(options.grace ?? 10_000);
  }

  /** Says what runs jobs of a kind. What it returns is the job's result. */
  handle<P = any, R = unknown>(kind: string, handler: Handler<P, R>): this {
    if (this.handlers.has(kind)) throw new TypeError(`${JSON.stringify(kind)} has a handler already`);
    this.handlers.set(kind, handler as Handler);
    return this;
  }

  /** Works until SIGTERM or SIGINT (a second one ends the process at once), or `stop()`; with `untilIdle` also until
   * there is nothing to do. Gives back what cannot be finished within the grace. */
  async run({ untilIdle = false, signals = true } = {}): Promise<Summary> {
    if (this.handlers.size === 0) throw new TypeError("there is no handler; say one by worker.handle(kind, …)");
    const heard = (signal: NodeJS.Signals) => {
      if (this.stopping.signal.aborted) process.exit(signal === "SIGINT" ? 130 : 143);
      this.log("ending; once more ends it at once");
      this.stop();
    };
    if (signals) process.on("SIGTERM", heard).on("SIGINT", heard);
    this.startKeeper();
    try {
      await this.claimAlways(untilIdle);
      await this.windUp();
    } finally {
      if (signals) process.off("SIGTERM", heard).off("SIGINT", heard);
      const keeper = this.keeper;
      this.keeper = undefined;
      await keeper?.terminate();
      await this.leave();
    }
    if (this.failure) throw this.failure;
    return this.summary;
  }

  /** Says that nobody should count on this worker any more. A server that does not hear it finds out by itself. */
  private async leave(): Promise<void> {
    const path = `/v1/workers/${part(this.name)}`;
    await this.servers.call("DELETE", path, undefined, { within: 0, timeout: 2_000 }).catch(() => {});
  }

  /** Ends `run` gracefully; as often as one likes. */
  stop(): void {
    this.stopping.abort();
    this.wake();
  }

  // Claiming

  private async claimAlways(untilIdle: boolean): Promise<void> {
    for (;;) {
      while (this.running >= this.options.slots && !this.stopping.signal.aborted) await changed(this.waiting, 1_000);
      if (this.stopping.signal.aborted) return;
      const busy = this.running > 0;
      const waitMs = untilIdle ? (busy ? 50 : 0) : CLAIM_WAIT_MS;
      const { leases, fresh } = await this.claim(Math.min(this.options.slots - this.running, CLAIM_MAX), waitMs);
      for (const leased of leases) this.start(leased, fresh);
      if (untilIdle && leases.length === 0 && !busy) return;
    }
  }

  /**
   * One claim, asked again with the same request id until it is answered. A server that was away may give nothing to the one
   * that is asked again, and carry out the first a moment later: the id of a claim whose answer was lost is asked with until it
   * gives something, for a minute.
   */
  private async claim(limit: number, longestMs: number): Promise<{ leases: Leased[]; fresh: boolean }> {
    const doubted = now() < this.doubt.until;
    const wish = {
      worker: this.name,
      queues: this.queues,
      kinds: [...this.handlers.keys()].sort(),
      limit,
      request_id: doubted ? this.doubt.requestId : (randomUUID() as string),
      ...(this.options.lease === undefined ? {} : { lease_ms: ms(this.options.lease) }),
    };
    const nothing = { leases: [], fresh: false };
    let giveUpAt = Infinity;
    for (let fresh = !doubted, pause = 100; ; fresh = false, pause = Math.min(pause * 2, 2_000)) {
      // Told to end: what the poll that was cut may have given is asked for once more, without waiting.
      const ending = this.stopping.signal.aborted;
      if (ending) giveUpAt = Math.min(giveUpAt, now() + this.graceMs);
      const waitMs = fresh ? longestMs : Math.min(longestMs, DOUBT_WAIT_MS);
      const body = JSON.stringify({ ...wish, wait_ms: ending ? 0 : waitMs });
      const options = { within: 0, timeout: waitMs + 10_000, signal: ending ? undefined : this.stopping.signal };
      try {
        const { leases } = await this.servers.call<{ leases: Leased[] }>("POST", "/v1/claim", body, options);
        this.answered = true;
        if (leases.length > 0) this.doubt.until = 0;
        return { leases, fresh };
      } catch (error) {
        if (error instanceof Refused && error.code === "request_conflict") {
          wish.request_id = randomUUID();
          this.doubt.until = 0;
        } else if (error instanceof Refused && (!this.answered || ending)) {
          // A wrong token, or a server that is none: whoever starts the worker is to hear of it.
          this.failure = error;
          this.stop();
          return nothing;
        }
        if (!(error instanceof Refused)) this.doubt = { requestId: wish.request_id, until: now() + DOUBT_MS };
        if (!this.stopping.signal.aborted && !(error instanceof Refused && error.code === "request_conflict")) {
          this.log(`claim: ${(error as Error).message}`);
        }
      }
      if (now() >= giveUpAt) return nothing;
      await (ending ? sleep(50) : changed(this.waiting, pause * (0.5 + Math.random() / 2)));
    }
  }

  private start(leased: Leased, fresh: boolean): void {
    const ctx = new Context(this, this.servers, leased, fresh);
    const name = `${ctx.id} ${ctx.fenceText}`;
    if (this.held.has(name)) return; // Given twice: it runs already.
    this.held.set(name, ctx);
    this.summary.claimed += 1;
    this.running += 1;
    this.keeper?.postMessage({ hold: { name, job_id: ctx.id, right: ctx.right, leaseMs: ctx.leaseMs, heldAt: ctx.heldAt } });
    // Claimed while the worker was told to end: nobody has begun it.
    if (this.stopping.signal.aborted) ctx.tell(new ShuttingDown("the worker ends"));
    const timeout = ctx.job.timeout;
    if (timeout) this.later(ctx, ms(timeout), () => ctx.tell(new TimedOut(`timed out after ${timeout}`)));
    // Told, waited for, settled without it. Should it never come back, it keeps its slot, and can write nothing.
    const told = () => this.later(ctx, this.graceMs, () => void this.settleWithout(ctx));
    ctx.signal.aborted ? told() : ctx.signal.addEventListener("abort", told, { once: true });
    void this.attempt(ctx);
  }

  private later(ctx: Context, time: number, act: () => void): void {
    // A timer of Node holds at most 2^31 ms.
    if (time < 2 ** 31 - 1) ctx.timers.push(setTimeout(act, time));
  }

  // Running

  private async attempt(ctx: Context): Promise<void> {
    try {
      const outcome = await this.runHandler(ctx);
      await ctx.writeLog();
      if (!ctx.ended) {
        ctx.ended = true;
        await this.settle(ctx, outcome);
      }
    } finally {
      this.running -= 1;
      this.wake();
    }
  }

  /** How the attempt ended; undefined when nothing may be written. */
  private async runHandler(ctx: Context): Promise<Outcome | undefined> {
    try {
      await ctx.goOn();
      const result = await this.handlers.get(ctx.job.kind)!(ctx);
      json("the result", result);
      return { outcome: "completed", result: result === undefined ? null : result };
    } catch (error) {
      const stop = ctx.signal.reason;
      const because = error instanceof Stop || (error as Error | undefined)?.name === "AbortError";
      if (because && stop instanceof Stop) return this.stopped(ctx, stop);
      if (error instanceof Stop) return this.stopped(ctx, error);
      if (error instanceof Park) return { outcome: "parked", delay: span(error.after) };
      if (error instanceof Permanent) return { outcome: "failed", error: text(error) };
      if (error instanceof RetryAfter) return { outcome: "retry", error: text(error), delay: span(error.after) };
      return this.byLadder(ctx, text(error)); // Whatever else it is.
    }
  }

  private stopped(ctx: Context, stop: Stop): Outcome | undefined {
    if (stop instanceof Canceled) return { outcome: "canceled" };
    if (stop instanceof TimedOut) return this.byLadder(ctx, stop.message);
    if (stop instanceof LeaseLost) return undefined;
    return { outcome: "released" };
  }

  /** By the ladder, up to a fifth later. */
  private byLadder(ctx: Context, error: string): Outcome {
    if (ctx.ladderMs === null) return { outcome: "retry", error };
    return { outcome: "retry", error, delay: span(ctx.ladderMs * (1 + Math.random() / 5)) };
  }

  private async settleWithout(ctx: Context): Promise<void> {
    if (ctx.ended) return;
    ctx.ended = true;
    this.log(`the handler of job ${ctx.id} did not stop when told; it is settled without it`);
    await this.settle(ctx, this.stopped(ctx, ctx.signal.reason as Stop));
  }

  /** Says how it ended, as often as it takes: saying it again is harmless. The lease is renewed meanwhile. */
  private async settle(ctx: Context, outcome: Outcome | undefined): Promise<void> {
    let status = "lost";
    while (outcome) {
      const { outcome: word, ...rest } = outcome;
      const said = JSON.stringify({ job_id: ctx.id, outcome: word, ...rest }).slice(1);
      const body = `{"results":[{${ctx.right},${said}]}`;
      try {
        type Settled = { results: { status: string }[] };
        const options = { within: Infinity, giveUp: () => ctx.gone };
        status = (await this.servers.call<Settled>("POST", "/v1/leases/settle", body, options)).results[0]!.status;
        break;
      } catch (error) {
        if (!(error instanceof Refused)) break;
        this.log(`the server refuses the outcome of job ${ctx.id}: ${error.message}`);
        if (word === "failed" || error.status === 401 || error.status === 403) break;
        outcome = { outcome: "failed", error: `the outcome was refused: ${error.message}` };
      }
    }
    this.letGo(ctx);
    if (status === "ok") {
      this.summary.settled += 1;
    } else {
      this.summary.lost += 1;
      this.log(`the lease of job ${ctx.id} was lost; what this attempt gave is dropped`);
    }
  }

  private letGo(ctx: Context): void {
    const name = `${ctx.id} ${ctx.fenceText}`;
    ctx.gone = true;
    ctx.timers.forEach(clearTimeout);
    this.held.delete(name);
    this.keeper?.postMessage({ drop: name });
    this.wake();
  }

  // Keeping leases

  private startKeeper(): void {
    const settings: KeeperSettings = {
      bases: this.servers.bases,
      headers: this.servers.headers,
      renewEveryMs: ms(this.options.renewEvery ?? 2_000),
    };
    const keeper = new Thread(`(${keep.toString()})()`, { eval: true, workerData: settings });
    keeper.on("message", (news: KeeperNews) => this.hear(news));
    keeper.on("error", (error) => {
      this.failure = error;
      this.stop();
    });
    this.keeper = keeper;
  }

  private hear({ renewed, still, lost, canceled, at, trouble }: KeeperNews): void {
    if (trouble && !this.troubled) this.log(`could not renew leases, asking again: ${trouble}`);
    this.troubled = trouble !== undefined;
    for (const name of renewed) this.held.get(name)?.renewed(at, still[name] ?? 0);
    for (const name of canceled) this.held.get(name)?.tell(new Canceled("the job was canceled"));
    for (const name of lost) this.held.get(name)?.tell(new LeaseLost("the job is no longer held"));
  }

  /** @internal */
  nudge(): void {
    this.keeper?.postMessage({ nudge: true });
  }

  // Ending

  /** Nothing new is claimed: tells the handlers, waits for them, gives back the rest, and lets go last. */
  private async windUp(): Promise<void> {
    let until = Infinity;
    // Three more seconds for those that are settled without their handler.
    while (this.held.size > 0 && now() < until + 3_000) {
      if (this.stopping.signal.aborted && until === Infinity) {
        until = now() + this.graceMs;
        for (const ctx of this.held.values()) ctx.tell(new ShuttingDown("the worker ends"));
      }
      await changed(this.waiting, 50);
    }
  }

  private wake(): void {
    for (const wake of this.waiting) wake();
  }
}

// The keeper ---------------------------------------------------------------------------------------------------

interface KeeperSettings {
  bases: string[];
  headers: Record<string, string>;
  renewEveryMs: number;
}

interface KeeperNews {
  renewed: string[];
  /** For how long those stand still that stood still before, by name, in milliseconds. */
  still: Record<string, number>;
  lost: string[];
  canceled: string[];
  at: number;
  trouble?: string;
}

/** Renews leases, in a thread of its own. It is started from its own text, so it uses nothing from around it. */
function keep(): void {
  type Hold = { name: string; job_id: string; right: string; leaseMs: number; heldAt: number };
  const { parentPort, workerData } = require("node:worker_threads") as typeof import("node:worker_threads");
  const { bases, headers, renewEveryMs } = workerData as KeeperSettings;
  const held = new Map<string, Hold>();
  const now = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;
  let first = 0;
  let timer: NodeJS.Timeout | undefined;
  let busy = false;

  parentPort!.on("message", ({ hold, drop }: { hold?: Hold; drop?: string }) => {
    if (hold) held.set(hold.name, hold);
    if (drop) held.delete(drop);
    look(0);
  });

  /** Looks for what is due after a while, or sooner. */
  function look(after: number): void {
    if (busy) return;
    clearTimeout(timer);
    timer = held.size === 0 ? undefined : setTimeout(() => void renew(), after);
  }

  async function renew(): Promise<void> {
    const at = now();
    const every = (hold: Hold) => Math.min(hold.leaseMs / 3, renewEveryMs);
    const due = [...held.values()].filter((hold) => at - hold.heldAt >= every(hold)).slice(0, 1000);
    let pause = Math.min(250, ...[...held.values()].map((hold) => every(hold) / 4));
    if (due.length > 0) {
      busy = true;
      await ask(due, at).catch((error: Error & { cause?: Error }) => {
        first = (first + 1) % bases.length;
        parentPort!.postMessage({ renewed: [], still: {}, lost: [], canceled: [], at, trouble: String(error.cause?.message || error.message) });
        pause = Math.max(pause, 50);
      });
      busy = false;
    }
    look(pause);
  }

  async function ask(due: Hold[], at: number): Promise<void> {
    const leases = due.map(({ job_id, right }) => `{"job_id":"${job_id}",${right}}`);
    // A call that hangs must not keep us from asking again in time.
    const patience = Math.max(200, Math.min(10_000, ...due.map((hold) => hold.leaseMs / 4)));
    const response = await fetch(`${bases[first]}/v1/leases/renew`, {
      method: "POST",
      headers,
      body: `{"leases":[${leases.join(",")}]}`,
      signal: AbortSignal.timeout(patience),
    });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    type Answer = { renewed: string[]; cancel_requested: string[]; still?: { job_id: string; for_ms: number }[] };
    const answer = (await response.json()) as Answer;
    const stills = new Map((answer.still ?? []).map(({ job_id, for_ms }) => [job_id, for_ms]));
    const [renewed, canceled] = [new Set(answer.renewed), new Set(answer.cancel_requested)];
    const names = (holds: Hold[]) => holds.map((hold) => hold.name);
    const ours = due.filter((hold) => renewed.has(hold.job_id));
    for (const hold of ours) hold.heldAt = at;
    const lost = due.filter((hold) => !renewed.has(hold.job_id));
    for (const hold of lost) held.delete(hold.name);
    const asked = due.filter((hold) => canceled.has(hold.job_id));
    const still = Object.fromEntries(ours.map(({ name, job_id }) => [name, stills.get(job_id) ?? 0]));
    parentPort!.postMessage({ renewed: names(ours), still, lost: names(lost), canceled: names(asked), at });
  }
}

// Small things -------------------------------------------------------------------------------------------------

/** A UUIDv7: ids made later sort later. */
export function newId(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Milliseconds by a clock that only goes forward, the same in every thread of this process. */
function now(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

function sleep(time: number): Promise<void> {
  return new Promise((wake) => setTimeout(wake, time));
}

/** Waits until somebody calls what waits, or for so long. */
function changed(waiting: Set<() => void>, time: number): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(wake, time);
    waiting.add(wake);
    function wake() {
      clearTimeout(timer);
      waiting.delete(wake);
      done();
    }
  });
}

function base(url: string): string {
  const parsed = URL.canParse?.(url) === false ? undefined : new URL(url);
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash) {
    throw new TypeError(`not the address of a server, such as ${DEFAULT_URL}`);
  }
  if (parsed.username || parsed.password) throw new TypeError("the address has a user in it; the token goes into WINDLASS_TOKEN");
  return parsed.href.replace(/\/+$/, "");
}

/** Numbers of JavaScript are exact to 2^53, fences go to 2^63: a long one is read as text. */
function parse(text: string, strict: boolean): any {
  try {
    return text === "" ? undefined : JSON.parse(text.replace(/"fence":(\d{16,})/g, '"fence":"$1"'));
  } catch (error) {
    if (strict) throw error;
    return undefined; // The page of a proxy.
  }
}

function refusal(status: number, answer: any): Refused {
  const error = answer?.error;
  if (typeof error?.code !== "string") return new Refused(status, "unknown", "it answered, and not as a Windlass server does");
  return new Refused(status, error.code, String(error.message), error.details ?? {});
}

function newJob({ delay, run_at, timeout, id, ...rest }: NewJob): Record<string, unknown> & { id: string } {
  return {
    ...rest,
    id: id ?? newId(),
    ...(delay === undefined ? {} : { delay: span(delay) }),
    ...(timeout === undefined ? {} : { timeout: span(timeout) }),
    ...(run_at === undefined ? {} : { run_at: run_at instanceof Date ? run_at.toISOString() : run_at }),
  };
}

function enqueued(answer: Enqueued, id: string, chosen: boolean): Enqueued {
  // An id that was made here can only have been there before because the first answer was lost.
  const ours = !chosen && answer.id === id;
  return { id: answer.id, deduplicated: answer.deduplicated && !ours };
}

function json(what: string, value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch (error) {
    throw new Permanent(`${what} cannot be written as JSON: ${(error as Error).message}`, { cause: error });
  }
}

function text(error: unknown): string {
  const plain = error instanceof Permanent || error instanceof RetryAfter;
  const said = error instanceof Error ? (plain ? error.message : `${error.name}: ${error.message}`) : String(error);
  return said.replaceAll("\0", "").slice(0, ERROR_CHARS_MAX);
}

function span(time: Span): string {
  if (typeof time === "string") return time;
  const whole = Math.max(0, Math.round(time));
  return whole < 1e9 ? `${whole}ms` : `${Math.ceil(whole / 1000)}s`;
}

function ms(time: Span): number {
  if (typeof time === "number") return time;
  const [, digits, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(time) ?? [];
  if (!digits || !unit) throw new TypeError(`${JSON.stringify(time)} is not a length of time such as 700ms, 30s, 5m, 2h or 1d`);
  return Number(digits) * { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit]!;
}

function part(text: string): string {
  return encodeURIComponent(text);
}
