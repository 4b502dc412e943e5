/** A shadow whose servers are of an older version, or come and go. */
import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { connectCri, type CriConnection, type CriVersion } from "../../../../src/client/cri-connection.js";
import type { ShadowReport } from "../../../../src/compare/shadow/shadow-report.js";
import { runShadow } from "../../../../src/compare/cli/relay-command.js";
import { type CriHandler, serveCri, temporaryDirectory } from "../grpc-peers.js";

const { signal } = new AbortController();
const self = [process.execPath, "--import", "tsx", "src/main/main.ts"] as const;

const handlers: Record<string, CriHandler> = {
  Version: (done) => {
    done(null, { runtime_name: "docker" });
  },
  Status: (done) => {
    done(null, {});
  },
};

interface Shadow {
  readonly primary: string;
  readonly endpoint: string;
  /** A client of the relay. */
  readonly client: CriConnection;
  /** Ends the shadow, and reads its report. */
  readonly report: () => Promise<ShadowReport>;
}

/** Both servers must serve. Their names are `primary` and `endpoint`, in one directory. */
async function startShadow(t: TestContext, directory: string, version: CriVersion): Promise<Shadow> {
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
    {
      writeOut: () => {
        begun();
      },
      signal: stop.signal,
      self,
    },
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
    primary,
    endpoint,
    client,
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
