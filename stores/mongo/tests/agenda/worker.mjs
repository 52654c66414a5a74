// A worker of Agenda, told by lines of JSON what to do: `node worker.mjs VERSION ADDRESS COLLECTION`.
// Answers each line with one of its own, and says when a run begins. It ends with its input.
import { createRequire } from 'node:module';
import readline from 'node:readline';

const require = createRequire(import.meta.url);
const [, , version, address, collection] = process.argv;
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

async function make(processEvery) {
  const shared = { processEvery, maxConcurrency: 50, defaultConcurrency: 50, name: 'node' };
  if (version === '6') {
    const { Agenda } = await import('agenda');
    const { MongoBackend } = await import('@agendajs/mongo-backend');
    const agenda = new Agenda({ ...shared, backend: new MongoBackend({ address, collection }) });
    await agenda.ready;
    return agenda;
  }
  const db = { address, collection };
  if (version === 'hokify') {
    const { Agenda } = require('@hokify/agenda');
    const agenda = new Agenda({ ...shared, db, ensureIndex: true });
    await agenda.ready;
    return agenda;
  }
  const Agenda = require(`agenda${version}`);
  const agenda = new Agenda({ ...shared, db });
  await new Promise((resolve, reject) => agenda.once('ready', resolve).once('error', reject));
  return agenda;
}

let agenda;
const endings = new Map(); // runs that wait to be told to end, by row

const commands = {
  async open({ processEvery }) {
    agenda = await make(processEvery);
    agenda.on('error', (error) => say({ error: String(error) }));
  },
  // What a run does: it ends at once, fails, or waits until it is told.
  async define({ name, lockLifetime, does }) {
    const run = async (job) => {
      const id = String(job.attrs._id);
      say({ run: id, name, data: job.attrs.data ?? null });
      if (does === 'fail') throw new Error('as was wished');
      if (does === 'wait') await new Promise((resolve) => endings.set(id, resolve));
    };
    if (version === '6' || version === 'hokify') agenda.define(name, run, { lockLifetime });
    else agenda.define(name, { lockLifetime }, run);
  },
  async start() {
    await agenda.start();
  },
  async now({ name, data }) {
    const job = await agenda.now(name, data);
    return String(job.attrs._id);
  },
  async every({ interval, name, options }) {
    const job = await agenda.every(interval, name, {}, options);
    return String(job.attrs._id);
  },
  async end({ id }) {
    endings.get(id)();
  },
  // What Agendash shows, by Agenda 6's own rule.
  async states() {
    const { jobs } = await agenda.queryJobs({});
    return Object.fromEntries(jobs.map((job) => [String(job._id), job.state]));
  },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { command, ...wish } = JSON.parse(line);
  commands[command](wish).then(
    (answer) => say({ answer: answer ?? null }),
    (error) => say({ failed: String(error?.stack ?? error) }),
  );
}
process.exit(0);
