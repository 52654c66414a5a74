"""procrastinate: async worker and connector, many jobs at once in one process, woken by NOTIFY."""

import asyncio

from procrastinate import App, PsycopgConnector

from peer import contest, ran


class Procrastinate:
    async def connect(self, ask):
        connector = PsycopgConnector(conninfo=ask.url, min_size=4, max_size=20)
        self.app = App(connector=connector)
        await self.app.open_async()
        if not await self.app.check_connection_async():
            await self.app.schema_manager.apply_schema_async()

        @self.app.task(name="bench")
        async def bench(**work):
            ran(work)

        self.task = bench

    async def enqueue(self, work):
        await self.task.defer_async(**work)

    async def enqueue_many(self, works):
        await self.task.batch_defer_async(*works)

    async def work(self):
        worker = self.app.run_worker_async(concurrency=30, install_signal_handlers=False)
        self.worker = asyncio.ensure_future(worker)


contest(Procrastinate())
