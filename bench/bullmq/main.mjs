// On Redis with appendfsync always, so that an answer means the same as with the others.
import { Queue, Worker } from 'bullmq';
import { contest, ran } from '../kit/node/peer.mjs';

const NAME = 'bench';
let connection;
let queue;

await contest({
  async connect(ask) {
    const { hostname, port } = new URL(ask.url);
    connection = { host: hostname, port: Number(port) };
    queue = new Queue(NAME, { connection });
    await queue.waitUntilReady();
  },
  enqueue: (work) => queue.add('bench', work),
  enqueueMany: (works) => queue.addBulk(works.map((data) => ({ name: 'bench', data }))),
  async work() {
    const options = { connection: { ...connection, maxRetriesPerRequest: null }, concurrency: 100 };
    const worker = new Worker(NAME, async (job) => ran(job.data), options);
    worker.on('error', (error) => console.error(error.message));
    await worker.waitUntilReady();
  },
});
