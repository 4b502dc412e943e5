/** Attach sessions: the container's own streams, for as long as it runs. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { textOf, type TestClient } from "../fakes/fake-streaming.js";
import type { Pod } from "../support/pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { openSockets } from "../support/processes.js";
import { until } from "../support/wait.js";
import { openSessions, type Sessions } from "./session-support.js";

describe("attach sessions", { skip: await reasonToSkip(), timeout: 120_000 }, () => {
  let bed: TestBed;
  let sessions: Sessions;
  let pod: Pod;
  let count = 0;
  before(async () => {
    bed = await TestBed.open();
    const shim = await bed.startShim();
    sessions = await openSessions();
    pod = await bed.runPod(shim.cri);
  });
  after(async () => {
    await sessions[Symbol.asyncDispose]();
    await bed.close();
  });

  const start = (script: string, settings: object = {}): Promise<string> =>
    pod.start({
      command: ["sh", "-c", script],
      metadata: { name: `c${String((count += 1))}`, attempt: 0 },
      ...settings,
    });
  /** Says `.` until it is told to go, so that a watcher knows that it is attached; then `a` and `b`, and ends with 5. */
  const onDemand = [
    "while [ ! -e /tmp/go ]; do sleep 0.1; echo .; echo . >&2; done",
    "echo a; echo b >&2; sleep 0.5; exit 5",
  ].join("; ");
  /** What a client sees after `go`, when it has seen the first of what comes before. */
  const watch = (
    client: TestClient,
  ): { readonly attached: Promise<unknown>; readonly all: Promise<string[]> } => ({
    attached: once(client.stdout, "data"),
    all: Promise.all([textOf(client.stdout), textOf(client.stderr)]),
  });
  const withoutDots = (text: string): string => text.replaceAll(".\n", "");

  test("several watchers see the same, until the container ends; that is a success", async () => {
    const id = await start(onDemand);
    const clients = await Promise.all(Array.from({ length: 3 }, () => sessions.attach(id)));
    const watches = clients.map(watch);
    await Promise.all(watches.map(({ attached }) => attached));
    await pod.shell(id, "touch /tmp/go");
    for (const { all } of watches) assert.deepEqual((await all).map(withoutDots), ["a\n", "b\n"]);
    for (const client of clients) assert.equal(await client.result, 0);
  });

  test("with stdin_once the end of the input is the container's", async () => {
    const id = await start("cat; echo ended", { stdin: true, stdin_once: true });
    const client = await sessions.attach(id, { stdin: true });
    client.stderr.resume();
    client.stdin.end("hello\n");
    assert.equal(await textOf(client.stdout), "hello\nended\n");
    assert.equal(await client.result, 0);
  });

  test("without stdin_once the next client goes on where the last one ended", async () => {
    const id = await start(
      "while read -r line; do echo $line >> /tmp/lines; done; echo closed >> /tmp/lines",
      {
        stdin: true,
      },
    );
    for (const text of ["one\n", "two\n"]) {
      const client = await sessions.attach(id, { stdin: true });
      client.stdout.resume();
      client.stderr.resume();
      client.stdin.end(text);
      await client.result;
    }
    await until("both lines are there", async () => (await pod.shell(id, "cat /tmp/lines")) === "one\ntwo");
  });

  test("a terminal passes on the keys with which Docker's client detaches", async () => {
    const script =
      "stty raw -echo; while :; do echo ready; sleep 0.1; done & head -c 4 | od -An -tx1; kill $!";
    const id = await start(script, { stdin: true, tty: true });
    const client = await sessions.attach(id, { stdin: true, tty: true, stderr: false });
    const ready = once(client.stdout, "data");
    const all = textOf(client.stdout);
    await ready;
    for (const key of ["\x10", "\x11", "a", "b"]) {
      client.stdin.write(key);
      await delay(50);
    }
    assert.match(await all, /10 11 61 62/);
    assert.equal(await client.result, 0);
  });

  test("a terminal is the container's, whatever the request says, and follows the client's size", async () => {
    const id = await start("while read -r line; do stty size; done", { stdin: true, tty: true });
    for (const tty of [true, false]) {
      const client = await sessions.attach(id, { stdin: true, tty, stderr: !tty });
      let seen = "";
      client.stdout.on("data", (chunk: Buffer) => (seen += chunk.toString()));
      client.resize(tty ? 77 : 78, 22);
      const expected = tty ? "22 77" : "22 78";
      await until("the size is seen", async () => {
        client.stdin.write("x\n");
        return seen.includes(expected);
      });
      // What echoes and stty say is text: no header of a frame is among it.
      assert.match(seen, /^[\n\r\x20-\x7e]*$/);
      client.leave();
      await assert.rejects(client.result);
    }
  });

  test("a client that leaves closes its connection, and the container goes on", async () => {
    const id = await start("while :; do sleep 0.2; echo tick; done");
    const connections = await openSockets(process.pid);
    const clients = await Promise.all(Array.from({ length: 5 }, () => sessions.attach(id)));
    await Promise.all(clients.map((client) => once(client.stdout, "data")));
    for (const client of clients) {
      client.leave();
      await assert.rejects(client.result);
    }
    await until("no connection is left", async () => (await openSockets(process.pid)) <= connections + 2);
    assert.equal((await pod.containerStatus(id)).state, 1);
  });
});
