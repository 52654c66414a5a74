// A Windlass worker in TypeScript, without packages; Node 22.6 or newer runs it as it is:
//   node --experimental-strip-types remote_worker.ts http://127.0.0.1:7717
// @ts-ignore: the types of Node are not needed to read this
import process from "node:process";

type Step = { name: string; output: unknown };
type Job = { id: string; kind: string; payload: { n: number }; steps: Step[] };
type Lease = { job: Job; fence: number; expires_at: string };

const [server, token] = [process.argv[2], process.env.WINDLASS_TOKEN];

async function call<T>(method: string, path: string, body: unknown): Promise<T> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  const response = await fetch(server + path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function run({ job, fence }: Lease): Promise<void> {
  const lease = { job_id: job.id, fence };
  // A lease lasts 30 seconds; it is renewed until the job is over.
  const keeper = setInterval(() => call("POST", "/v1/leases/renew", { leases: [lease] }).catch(console.error), 10_000);
  let result: object;
  try {
    let doubled = job.steps.find((step) => step.name === "double")?.output as number | undefined;
    if (doubled === undefined) {
      doubled = job.payload.n * 2; // A step that was stored is not run again.
      await call("PUT", `/v1/jobs/${job.id}/steps/double`, { fence, output: doubled });
    }
    result = { outcome: "completed", result: { doubled } };
  } catch (error) {
    result = { outcome: "retry", error: String(error) };
  }
  clearInterval(keeper);
  await call("POST", "/v1/leases/settle", { results: [{ ...lease, ...result }] });
}

for (;;) {
  const claim = { worker: `ts@${process.pid}`, queues: ["default"], kinds: ["double"], limit: 1, wait_ms: 30_000 };
  const { leases } = await call<{ leases: Lease[] }>("POST", "/v1/claim", { ...claim, request_id: crypto.randomUUID() });
  for (const lease of leases) await run(lease);
}
