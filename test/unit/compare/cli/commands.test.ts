/** The commands shadow, shadow report and replay. The servers of a shadow are of an older version, or come and go. */
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { type CriConnection, type CriVersion, connectCri } from "../../../../src/client/cri-connection.js";
import { runShadow } from "../../../../src/compare/cli/relay-command.js";
import { page, requireNoPods } from "../../../../src/compare/cli/replay-command.js";
import { renderReport, runShowReport } from "../../../../src/compare/cli/show-report.js";
import { newReport } from "../../../../src/compare/observe-calls.js";
import { relayPaths } from "../../../../src/compare/relay/relay-link.js";
import { ReportBuilder, type ShadowReport } from "../../../../src/compare/shadow/shadow-report.js";
import { programWords } from "../../../support/program-words.js";
import { type CriHandler, serveCri, startCriServer, temporaryDirectory } from "../grpc-peers.js";

const { signal } = new AbortController();
const self = programWords();

const handlers: Record<string, CriHandler> = {
  Version: (done) => done(null, { runtime_name: "docker" }),
  Status: (done) => done(null, {}),
};

test("a shadow that does not start leaves the report of an earlier one", async (t) => {
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
  const io = { writeOut: () => undefined, signal, self: ["/nowhere"] as const };
  await assert.rejects(runShadow({ primary, listen, endpoint, report }, io), {
    kind: "conflict",
    message: /another server answers there/,
  });
  assert.equal(readFileSync(report, "utf8"), text);
});

/** Both servers must serve. Their names are `primary` and `endpoint`, in one directory. */
async function startShadow(t: TestContext, directory: string, version: CriVersion) {
  const [primary, endpoint, listen, report] = ["primary", "endpoint", "listen", "report"].map((name) =>
    join(directory, name),
  ) as [string, string, string, string];
  const stop = new AbortController();
  let begun = (): void => undefined;
  const beginning = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const ended = runShadow(
    { primary, endpoint, listen, report },
    { writeOut: () => begun(), signal: stop.signal, self },
  );
  await Promise.race([beginning, ended]);
  const client = connectCri(listen, version);
  const read = (): ShadowReport => JSON.parse(readFileSync(report, "utf8")) as ShadowReport;
  t.after(async () => {
    client.close();
    stop.abort();
    await ended;
  });
  await until(() => {
    try {
      return read().shadow.server !== "";
    } catch {
      return false; // There is no report yet.
    }
  });
  return {
    client,
    /** Ends the shadow, and reads its report. */
    report: async () => {
      client.close();
      stop.abort();
      assert.equal(await ended, 0);
      return read();
    },
  };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Calls until there is an answer: grpc-js waits a second before it dials again. */
async function untilAnswered(client: CriConnection): Promise<void> {
  for (;;) {
    try {
      await client.call("Version", {}, { signal });
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

test("a shadow compares a primary that serves v1alpha2 alone", async (t) => {
  const directory = temporaryDirectory(t);
  const primary = await serveCri(join(directory, "primary"), handlers, "v1alpha2");
  const endpoint = await serveCri(join(directory, "endpoint"), handlers);
  t.after(() => {
    primary.stop();
    endpoint.stop();
  });
  const { client, report } = await startShadow(t, directory, "v1alpha2");
  await client.call("Version", {}, { signal });
  const { rpcs, unanswered, unobserved, primary: server } = await report();
  assert.deepEqual([rpcs["Version"]?.observed, rpcs["Version"]?.compared, rpcs["Version"]?.equal], [1, 1, 1]);
  assert.deepEqual([unanswered.count, unobserved.givenUp], [0, 0]);
  assert.match(server.server, /^docker/);
});

test("a shadow goes on when its servers end and come back, again and again", async (t) => {
  const directory = temporaryDirectory(t);
  let primary = await serveCri(join(directory, "primary"), handlers);
  let endpoint = await serveCri(join(directory, "endpoint"), handlers);
  t.after(() => {
    primary.stop();
    endpoint.stop();
  });
  const { client, report } = await startShadow(t, directory, "v1");
  for (let round = 0; round < 3; round += 1) {
    endpoint.stop();
    // The primary alone is enough for clients.
    await client.call("Version", {}, { signal });
    primary.stop();
    await assert.rejects(client.call("Version", {}, { signal }), { kind: "unavailable" });
    for (const name of ["primary", "endpoint"]) rmSync(join(directory, name), { force: true });
    primary = await serveCri(join(directory, "primary"), handlers);
    endpoint = await serveCri(join(directory, "endpoint"), handlers);
    await untilAnswered(client);
  }
  // By now the shadow may wait with its next attempt to reach the second server.
  let asked = 0;
  endpoint.stop();
  rmSync(join(directory, "endpoint"), { force: true });
  const counted: Record<string, CriHandler> = {
    ...handlers,
    Version: (done) => {
      asked += 1;
      done(null, { runtime_name: "docker" });
    },
  };
  endpoint = await serveCri(join(directory, "endpoint"), counted);
  while (asked === 0) {
    await client.call("Version", {}, { signal });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { rpcs, differences, starts, complete } = await report();
  assert.ok((rpcs["Version"]?.equal ?? 0) >= 1);
  // A server that is not there is no difference.
  assert.deepEqual([differences, starts, complete], [[], 1, true]);
});

test("a server that has pods, or does not list them, is refused", async () => {
  const answering = (answer: object): { ask: () => Promise<object> } => ({
    ask: () => Promise.resolve(answer),
  });
  await requireNoPods(answering({ items: [] }), "/s", signal);
  await assert.rejects(requireNoPods(answering({ items: [{}] }), "/s", signal), {
    kind: "conflict",
    message: /it has 1 pods/,
  });
  const error = { code: 13, message: "the engine does not answer" };
  await assert.rejects(requireNoPods(answering({ error }), "/s", signal), {
    kind: "unavailable",
    message: /does not list its pods; see crictl/,
  });
});

test("the page shows nothing of a recording that a terminal would act on", () => {
  const paths = { listen: "", relay: "", primary: "" };
  const report = newReport({ paths, endpoint: "", startedAt: "" });
  const replayed = {
    played: 0,
    notPlayed: {},
    missingImages: ["\u001b[31m"],
    missingPaths: ["/\u202e"],
    imageLabels: ["\u202e"],
    left: [],
  };
  assert.ok(!/[\p{Cc}\p{Cf}]/u.test(page(report, replayed, true).replaceAll("\n", "")));
});

function reportOf(intended?: { key: string; reason: string }): ShadowReport {
  const paths = { listen: "/l", relay: "/r", primary: "/p" };
  const report = newReport({ paths, endpoint: "/e", startedAt: "2026-01-31T00:00:00Z" });
  const builder = new ReportBuilder(report);
  builder.counts("Status").observed = 3;
  const difference = {
    rpc: "Status",
    subject: "server",
    field: "a[x].b",
    left: 1,
    right: "\u001b[31m\u202e\u009b",
  };
  const shown = intended === undefined ? difference : { ...difference, intended };
  builder.add(shown, shown, "2026-01-31T00:00:01Z");
  return report;
}

test("the page names counts and differences, at most 100 columns wide, without control characters", () => {
  const page = renderReport(reportOf());
  assert.match(page, /^Status +3 /m);
  assert.match(page, /^Status a\[\]\.b: 1 times/m);
  assert.ok(page.split("\n").every((line) => line.length <= 100));
  assert.ok(!/[\p{Cc}\p{Cf}]/u.test(page.replaceAll("\n", "")));
});

test("a difference that is not intended stays one beside an intended one of the same field", () => {
  const report = reportOf({ key: "k", reason: "because" });
  const builder = new ReportBuilder(report);
  const other = { rpc: "Status", subject: "server", field: "a[y].b", left: 1, right: 2 };
  assert.equal(builder.isKnown(other), false);
  builder.add(other, other, "2026-01-31T00:00:02Z");
  const rows = report.differences.map(({ intended, count }) => [intended?.key, count]);
  assert.deepEqual(rows, [
    ["k", 1],
    [undefined, 1],
  ]);
});

test("the exit code is 2 when a difference is not intended", async (t) => {
  const path = join(temporaryDirectory(t), "report");
  let out = "";
  for (const [report, code] of [
    [reportOf(), 2],
    [reportOf({ key: "k", reason: "because" }), 0],
  ] as const) {
    writeFileSync(path, JSON.stringify(report));
    assert.equal(await runShowReport(path, { writeOut: (text) => (out += text) }), code);
  }
  assert.match(out, /intended: because/);
  writeFileSync(path, "{}");
  await assert.rejects(runShowReport(path, { writeOut: () => undefined }), {
    kind: "invalid",
    message: /not a report of "dockershim shadow"/,
  });
});
