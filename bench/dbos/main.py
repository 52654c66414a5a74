"""dbos: a queue of workflows, asked often, because it has no other way to be quick."""

import asyncio

from dbos import DBOS, DBOSClient

from peer import contest, ran

QUEUE = "bench"
VERSION = "1"


@DBOS.workflow(name="bench")
async def bench(work):
    ran(work)


class Dbos:
    async def connect(self, ask):
        self.url = ask.url.replace("postgres://", "postgresql+psycopg://", 1)
        # Enqueueing needs no worker in the process; a launched DBOS would begin to drain.
        await asyncio.to_thread(self._schema)
        self.client = DBOSClient(system_database_url=self.url)
        self.options = {"queue_name": QUEUE, "workflow_name": "bench", "app_version": VERSION}
        if ask.measure in ("drain", "latency", "steady"):
            self._configure(listening=True)

    def _schema(self):
        self._configure(listening=False)
        DBOS.launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=0.01)
        DBOS.destroy()

    def _configure(self, listening):
        DBOS(config={
            "name": "bench",
            "system_database_url": self.url,
            "application_version": VERSION,
            "executor_id": "bench",
            "sys_db_pool_size": 20,
            "log_level": "ERROR",
        })
        if not listening:
            DBOS.listen_queues([])

    async def enqueue(self, work):
        await self.client.enqueue_async(self.options, work)

    async def enqueue_many(self, works):
        await asyncio.to_thread(self._enqueue_many, works)

    def _enqueue_many(self, works):
        with self.client._sys_db.engine.begin() as connection:
            for work in works:
                self.client.enqueue_in_transaction(connection, self.options, work)

    async def work(self):
        await asyncio.to_thread(DBOS.launch)


contest(Dbos())
