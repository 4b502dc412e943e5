import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { newReport } from "../../../../src/compare/observe-calls.js";
import { relayPaths } from "../../../../src/compare/relay/relay-link.js";
import { runShadow } from "../../../../src/compare/cli/relay-command.js";
import { startCriServer } from "../grpc-peers.js";

test("a shadow that does not start leaves the report of an earlier one", async (t) => {
  const handlers = {
    Version: (done: (error: null, answer: object) => void) => {
      done(null, { runtime_name: "docker" });
    },
    Status: (done: (error: null, answer: object) => void) => {
      done(null, {});
    },
  };
  const [primary, endpoint] = [await startCriServer(t, handlers), await startCriServer(t, handlers)];
  const listen = join(dirname(primary), "listen.sock");
  const report = join(dirname(primary), "report");
  const paths = relayPaths(listen, primary);
  const text = JSON.stringify(newReport({ paths, endpoint, startedAt: "2026-01-31T00:00:00Z" }), null, 2);
  writeFileSync(report, text);
  // The relay of a shadow that runs.
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(paths.relay, resolve));
  t.after(() => other.close());
  const io = { writeOut: () => undefined, signal: new AbortController().signal, self: ["/nowhere"] as const };
  await assert.rejects(runShadow({ primary, listen, endpoint, report }, io), {
    kind: "conflict",
    message: /another server answers there/,
  });
  assert.equal(readFileSync(report, "utf8"), text);
});
