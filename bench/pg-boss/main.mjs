// Batches of 1,000 fetched without a pause while they come back full, woken by NOTIFY.
import { PgBoss } from 'pg-boss';
import { contest, ran } from '../kit/node/peer.mjs';

const QUEUE = 'bench';
let boss;

await contest({
  async connect(ask) {
    boss = new PgBoss({ connectionString: ask.url, max: 20, useListenNotify: true, schedule: false });
    boss.on('error', (error) => console.error(error.message));
    await boss.start();
    await boss.createQueue(QUEUE, { notify: true });
  },
  enqueue: (work) => boss.send(QUEUE, work),
  enqueueMany: (works) => boss.insert(QUEUE, works.map((data) => ({ data }))),
  work: () =>
    boss.work(QUEUE, { batchSize: 1000, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      for (const job of jobs) ran(job.data);
    }),
});
