// What every contestant written for Node has in common; ../rust has the same in Rust.
// A contestant is an object with connect(ask), enqueue(work), enqueueMany(works)
// and work(); its handler calls ran(work) first thing.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const IDLE_MS = 2_000;
const LINGER_MS = 500;
const WARM_MS = 500;

const seen = { runs: 0, last: 0, keep: false, pickups: [] };

export const now = () => performance.timeOrigin + performance.now();

export const newWork = () => ({ sent_ms: Math.round(now() * 1e3) / 1e3, filling: 'x'.repeat(58) });

export function ran(work) {
  seen.runs += 1;
  seen.last = now();
  if (seen.keep) seen.pickups.push([work.sent_ms, seen.last - work.sent_ms]);
}

export async function contest(peer) {
  const ask = read(process.argv.slice(2));
  await peer.connect(ask);
  console.log('ready');
  if (ask.measure === 'setup') process.exit(0);
  const lines = createInterface({ input: process.stdin });
  await once(lines, 'line');
  const closed = once(lines, 'close');
  const measures = {
    enqueue_one: enqueueOne,
    enqueue_batch: enqueueBatch,
    drain,
    latency: (peer, ask) => pickup(peer, ask, 1),
    steady: (peer, ask) => pickup(peer, ask, 20),
  };
  console.log(JSON.stringify(await measures[ask.measure](peer, ask)));
  await closed;
  process.exit(0);
}

function read([measure, ...rest]) {
  const ask = { measure, jobs: 1000, producers: 16, batch: 1000, seconds: 3600, every_ms: 20 };
  for (let at = 0; at < rest.length; at += 2) {
    const value = rest[at + 1];
    ask[rest[at].slice(2)] = /^\d+$/.test(value) ? Number(value) : value;
  }
  return ask;
}

async function enqueueOne(peer, ask) {
  const start = now();
  let taken = 0;
  let done = 0;
  const producer = async () => {
    while (taken++ < ask.jobs && now() < start + ask.seconds * 1e3) {
      await peer.enqueue(newWork());
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: ask.producers }, producer));
  return { jobs: done, start_ms: start, end_ms: now() };
}

async function enqueueBatch(peer, ask) {
  const start = now();
  let done = 0;
  while (done < ask.jobs && now() < start + ask.seconds * 1e3) {
    const count = Math.min(ask.batch, ask.jobs - done);
    await peer.enqueueMany(Array.from({ length: count }, newWork));
    done += count;
  }
  return { jobs: done, start_ms: start, end_ms: now() };
}

async function drain(peer, ask) {
  const start = now();
  await peer.work();
  while (seen.runs < ask.jobs && now() < start + ask.seconds * 1e3) {
    await sleep(2);
    if (seen.runs > 0 && now() - seen.last > IDLE_MS) break;
  }
  const found = { jobs: seen.runs, start_ms: start, end_ms: seen.last };
  // The driver looks when the last of them is settled.
  console.log('drained');
  await sleep(LINGER_MS);
  return { ...found, runs: seen.runs };
}

async function pickup(peer, ask, atOnce) {
  seen.keep = true;
  await peer.work();
  const start = now();
  let sent = 0;
  const sending = new Set();
  for (let beat = 1; now() < start + ask.seconds * 1e3 + WARM_MS; beat += 1) {
    const works = Array.from({ length: atOnce }, newWork);
    const one = (atOnce === 1 ? peer.enqueue(works[0]) : peer.enqueueMany(works));
    sending.add(one);
    one.finally(() => sending.delete(one));
    sent += atOnce;
    await sleep(Math.max(0, start + beat * ask.every_ms - now()));
  }
  await Promise.all(sending);
  const end = now();
  while (seen.runs < sent && now() - end < IDLE_MS) await sleep(2);
  const pickups = seen.pickups.filter(([at]) => at >= start + WARM_MS).map(([, took]) => Math.round(took * 1e3) / 1e3);
  return { jobs: sent, runs: seen.runs, start_ms: start, end_ms: end, pickups_ms: pickups };
}
