// A real local Workers KV: miniflare with its REST explorer.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Miniflare } from "miniflare";

import { documents, openStore } from "./house.mjs";

const NAMESPACE = "CRYPTO_NEWS_CACHE";
const KEYS = ["BTC_PENDING_LIST", "BTC_CHECKPOINT", "BTC_ID_INDEX"];

let miniflare, env, kv;
before(async () => {
  miniflare = new Miniflare({
    modules: true,
    script: "export default { fetch: () => new Response('ok') }",
    kvNamespaces: { [NAMESPACE]: NAMESPACE },
    unsafeLocalExplorer: true,
    host: "127.0.0.1",
    port: 0,
  });
  const url = await miniflare.ready;
  kv = await miniflare.getKVNamespace(NAMESPACE);
  env = {
    CLOUDFLARE_BASE_URL: `${url.origin}/cdn-cgi/explorer/api`,
    CLOUDFLARE_API_TOKEN: "any",
    CLOUDFLARE_KV_NAMESPACE_ID: NAMESPACE,
  };
});
after(() => miniflare.dispose());

test("published, read by a worker, and imported again", async () => {
  const store = await openStore(env);
  await store.fill(documents(6));
  const report = await store.json("kv", "publish");
  assert.equal(report.written, 4 + 3, "four articles that are done, and the lists");
  for (const key of KEYS) assert.deepEqual(await kv.get(key, "json"), await store.json("kv", "get", key), key);
  assert.equal((await kv.get("article:a4", "json")).aiSummary, "Report 4 in short: the price moved.");
  assert.equal((await store.json("kv", "publish")).written, 0, "nothing has changed");
  await store.run("drop", "a4");
  await store.run("kv", "publish");
  assert.deepEqual(await kv.get("BTC_ID_INDEX", "json"), ["a3", "a2", "a1"]);
  assert.equal(await kv.get("article:a4"), null, "what an operator takes away is taken away there, too");

  const other = await openStore(env);
  const imported = await other.json("import", "--from-kv");
  assert.deepEqual([imported.finished, imported.unfinished], [3, 2]);
  assert.deepEqual(await other.json("kv", "get", "BTC_ID_INDEX"), ["a3", "a2", "a1"]);
  await store.close();
  await other.close();
});
