/** Exec sessions: streams, exit codes, terminals, and that nothing stays behind. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { textOf, type TestClient } from "../fakes/fake-streaming.js";
import { needsEngineHost } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { processesIn } from "../support/processes.js";
import { until } from "../support/wait.js";
import { openSessions, type Sessions } from "./session-support.js";

interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

async function outcomeOf(client: TestClient): Promise<Outcome> {
  const [stdout, stderr, code] = await Promise.all([
    textOf(client.stdout),
    textOf(client.stderr),
    client.result,
  ]);
  return { stdout, stderr, code };
}

describe("exec sessions", { skip: await reasonToSkip(), timeout: 300_000 }, () => {
  let bed: TestBed;
  let sessions: Sessions;
  let pod: Pod;
  let id: string;
  before(async () => {
    bed = await TestBed.open();
    const shim = await bed.startShim();
    sessions = await openSessions();
    pod = await bed.runPod(shim.cri);
    id = await pod.start();
  });
  after(async () => {
    await sessions[Symbol.asyncDispose]();
    await bed.close();
  });

  test("both streams and the exit code", async () => {
    for (const code of [0, 255]) {
      const client = await sessions.exec(id, ["sh", "-c", `echo out; echo err >&2; exit ${String(code)}`]);
      assert.deepEqual(await outcomeOf(client), { stdout: "out\n", stderr: "err\n", code });
    }
  });

  test("the end of the input arrives, and output after it", async () => {
    const client = await sessions.exec(id, ["sh", "-c", "wc -c; sleep 1; echo late"], { stdin: true });
    client.stdin.end("x".repeat(1_000_000));
    assert.deepEqual(await outcomeOf(client), { stdout: "1000000\nlate\n", stderr: "", code: 0 });
  });

  test("large input and output are the same bytes", async () => {
    const data = randomBytes(20_000_000);
    const client = await sessions.exec(id, ["cat"], { stdin: true });
    const hash = createHash("sha256");
    client.stdout.on("data", (chunk: Buffer) => hash.update(chunk));
    client.stderr.resume();
    client.stdin.end(data);
    assert.equal(await client.result, 0);
    assert.equal(hash.digest("hex"), createHash("sha256").update(data).digest("hex"));
  });

  test("a terminal has the first size and follows each later one", async () => {
    const script = "while read -r line; do stty size; done";
    const client = await sessions.exec(id, ["sh", "-c", script], { tty: true, stdin: true, stderr: false });
    let seen = "";
    client.stdout.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    const sees = (size: string): Promise<unknown> =>
      until(`size ${size} is seen`, () => {
        client.stdin.write("x\n");
        return seen.includes(size);
      });
    client.resize(123, 45);
    await sees("45 123");
    for (const [columns, rows] of [
      [100, 30],
      [101, 31],
      [90, 20],
    ] as const)
      client.resize(columns, rows);
    await sees("20 90");
    client.leave();
    await assert.rejects(client.result);
  });

  test("a terminal ends with its process and has its exit code", async () => {
    const client = await sessions.exec(id, ["sh"], { tty: true, stdin: true, stderr: false });
    client.stdin.write("exit 7\n");
    client.stdout.resume();
    assert.equal(await client.result, 7);
  });

  test("a terminal passes on the keys with which Docker's client detaches", async () => {
    const script = "stty raw -echo; echo ready; head -c 4 | od -An -tx1";
    const client = await sessions.exec(id, ["sh", "-c", script], { tty: true, stdin: true, stderr: false });
    const ready = once(client.stdout, "data");
    const all = textOf(client.stdout);
    await ready;
    // Key by key, as they are typed: some engines look for the sequence in single bytes only.
    for (const key of ["\x10", "\x11", "a", "b"]) {
      client.stdin.write(key);
      await delay(50);
    }
    assert.match(await all, /10 11 61 62/);
    assert.equal(await client.result, 0);
  });

  test("a client that does not read stops the process, and loses nothing", async () => {
    const client = await sessions.exec(id, ["sh", "-c", "head -c 30000000 /dev/zero; echo x > /tmp/done"]);
    client.stderr.resume();
    await delay(1_500);
    assert.equal((await pod.exec(id, "test", "-e", "/tmp/done")).exitCode, 1);
    let bytes = 0;
    client.stdout.on("data", (chunk: Buffer) => (bytes += chunk.length));
    assert.deepEqual([await client.result, bytes], [0, 30_000_000]);
  });

  const ofProcesses = { skip: needsEngineHost("processes") };

  test("a child that keeps the output after its parent ended ends with the client", ofProcesses, async () => {
    const before = await processesIn(id);
    const client = await sessions.exec(id, ["sh", "-c", "sleep 1000 & echo started"]);
    let seen = "";
    client.stdout.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    client.stderr.resume();
    await until("the parent has ended", () => seen === "started\n");
    await delay(300);
    client.leave();
    await client.result.catch(() => undefined);
    await until("the child is gone", async () => (await processesIn(id)).length <= before.length);
  });
});
