// The settings of its performance guide: local queue, and completions in groups.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { contest, ran } from '../kit/node/peer.mjs';

const logger = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message);
});
let utils;
let preset;

await contest({
  async connect(ask) {
    preset = {
      worker: {
        connectionString: ask.url,
        maxPoolSize: 20,
        concurrentJobs: 24,
        pollInterval: 1000,
        localQueue: { size: 500, refetchDelay: { durationMs: 10, threshold: 0 } },
        // A delay of 0 groups what ends in the same turn of the event loop.
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
      },
    };
    if (ask.measure === 'latency') delete preset.worker.localQueue;
    utils = await makeWorkerUtils({ preset });
    await utils.migrate();
  },
  enqueue: (work) => utils.addJob('bench', work),
  enqueueMany: (works) => utils.addJobs(works.map((payload) => ({ identifier: 'bench', payload }))),
  work: () => run({ preset, noHandleSignals: true, taskList: { bench: async (work) => ran(work) } }),
});
