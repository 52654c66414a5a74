// Fills the tables of another queue as its own programs do: node fill.mjs PACKAGE URL
//
// Three jobs wait (one of them for later, one with a key), one is held by a worker, one is over.
const [name, connectionString] = process.argv.slice(2);
const LATER = new Date('2031-01-31T12:00:00.500Z');

const fill = {
  async 'pg-boss'(library) {
    const PgBoss = library.PgBoss ?? library.default;
    const boss = new PgBoss({ connectionString, schedule: false, supervise: false });
    boss.on('error', (error) => console.error(error.message));
    await boss.start();
    for (const queue of ['resize', 'held', 'over']) await boss.createQueue(queue);
    await boss.send('held', { n: 0 });
    await boss.fetch('held');
    const over = await boss.send('over', { n: 0 });
    await boss.fetch('over');
    await boss.complete('over', over);
    await boss.send('resize', { n: 1 });
    await boss.send('resize', { n: 2 }, { priority: 7, startAfter: LATER });
    await boss.send('resize', { n: 3 }, { singletonKey: 'shop-7' });
    await boss.stop({ graceful: false });
  },

  async 'graphile-worker'(library) {
    const logger = new library.Logger(() => (level, message) => level === 'error' && console.error(message));
    const utils = await library.makeWorkerUtils({ connectionString, logger });
    await utils.migrate();
    await utils.addJob('held', { n: 0 });
    await utils.withPgClient((sql) => sql.query("UPDATE graphile_worker._private_jobs SET locked_at = now(), locked_by = 'w'"));
    const over = await utils.addJob('over', { n: 0 });
    await utils.permanentlyFailJobs([over.id], 'no');
    await utils.addJob('resize', { n: 1 });
    await utils.addJob('resize', { n: 2 }, { priority: -7, runAt: LATER });
    await utils.addJob('resize', { n: 3 }, { queueName: 'user-7', jobKey: 'shop-7' });
    await utils.release();
  },
}[name.replace(/-[0-9.]+$/, '')];

await fill(await import(name));
