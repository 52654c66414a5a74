// Agenda as its README shows it: jobs one by one, 50 at once. A replica set acknowledges by a majority, with its
// journal, unless it is told otherwise: an answer means the same as with the others.
import { createRequire } from 'node:module';
import { contest, ran } from '../kit/node/peer.mjs';

const require = createRequire(import.meta.url);
const AT_ONCE = 50;
let agenda;
let version;

async function open(address) {
  // Without a limit of locks it locks all that waits, one by one, before it runs anything.
  const shared = {
    processEvery: '100 milliseconds',
    maxConcurrency: AT_ONCE,
    defaultConcurrency: AT_ONCE,
    lockLimit: AT_ONCE,
    defaultLockLimit: AT_ONCE,
  };
  const db = { address, collection: 'agendaJobs' };
  if (version === '6') {
    const { Agenda } = await import('agenda');
    const { MongoBackend } = await import('@agendajs/mongo-backend');
    const made = new Agenda({ ...shared, backend: new MongoBackend(db) });
    await made.ready;
    return made;
  }
  if (version === 'hokify') {
    const { Agenda } = require('@hokify/agenda');
    const made = new Agenda({ ...shared, db, ensureIndex: true });
    await made.ready;
    return made;
  }
  const Agenda = require(`agenda${version}`);
  const made = new Agenda({ ...shared, db });
  await new Promise((resolve, reject) => made.once('ready', resolve).once('error', reject));
  return made;
}

await contest({
  async connect(ask) {
    version = String(ask.agenda);
    agenda = await open(ask.url);
  },
  enqueue: (work) => agenda.now('bench', work),
  async enqueueMany(works) {
    let at = 0;
    const producer = async () => {
      while (at < works.length) await agenda.now('bench', works[at++]);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, producer));
  },
  async work() {
    const run = async (job) => ran(job.attrs.data);
    if (version === '6' || version === 'hokify') agenda.define('bench', run, { concurrency: AT_ONCE, lockLimit: AT_ONCE });
    else agenda.define('bench', { concurrency: AT_ONCE, lockLimit: AT_ONCE }, run);
    await agenda.start();
  },
});
