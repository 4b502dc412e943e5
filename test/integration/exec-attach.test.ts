/** ExecSync, and sessions of exec and attach: streams, exit codes, terminals, and that nothing stays behind. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { textOf, type TestClient } from "../fakes/fake-streaming.js";
import { rejectsWith } from "../support/cri-client.js";
import { isEngineElsewhere, needsEngineHost } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { openSockets, processesIn } from "../support/processes.js";
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

async function commandLines(containerId: string): Promise<readonly string[]> {
  return (await processesIn(containerId)).map(({ command }) => command);
}

describe("exec and attach", { skip: await reasonToSkip(), timeout: 300_000 }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let sessions: Sessions;
  let pod: Pod;
  let id: string;
  let count = 0;
  before(async () => {
    sessions = bed.own(await openSessions());
    pod = await bed.runPod(bed.shim.cri);
    id = await pod.start();
  });

  test("exec: the end of the input arrives, and output after it", async () => {
    const client = await sessions.exec(id, ["sh", "-c", "wc -c; sleep 1; echo late"], { stdin: true });
    client.stdin.end("x".repeat(1_000_000));
    assert.deepEqual(await outcomeOf(client), { stdout: "1000000\nlate\n", stderr: "", code: 0 });
  });

  test("exec: input alone, without output", async () => {
    const streams = { stdin: true, stdout: false, stderr: false };
    const client = await sessions.exec(id, ["sh", "-c", "cat > /tmp/in"], streams);
    client.stdin.end("only in");
    assert.equal(await client.result, 0);
    assert.equal(await pod.shell(id, "cat /tmp/in"), "only in");
  });

  test("exec: large input and output are the same bytes", async () => {
    const data = randomBytes(20_000_000);
    const client = await sessions.exec(id, ["cat"], { stdin: true });
    const hash = createHash("sha256");
    client.stdout.on("data", (chunk: Buffer) => hash.update(chunk));
    client.stderr.resume();
    client.stdin.end(data);
    assert.equal(await client.result, 0);
    assert.equal(hash.digest("hex"), createHash("sha256").update(data).digest("hex"));
  });

  test("exec: a terminal has the first size and follows each later one", async () => {
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

  test("exec: a terminal ends with its process and has its exit code", async () => {
    const client = await sessions.exec(id, ["sh"], { tty: true, stdin: true, stderr: false });
    client.stdin.write("exit 7\n");
    client.stdout.resume();
    assert.equal(await client.result, 7);
  });

  for (const verb of ["exec", "attach"] as const) {
    test(`${verb}: a terminal passes on the keys with which Docker's client detaches`, async () => {
      const script =
        "stty raw -echo; while :; do echo ready; sleep 0.1; done & head -c 4 | od -An -tx1; kill $!";
      const streams = { tty: true, stdin: true, stderr: false };
      const client =
        verb === "exec"
          ? await sessions.exec(id, ["sh", "-c", script], streams)
          : await sessions.attach(await start(script, { stdin: true, tty: true }), streams);
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
  }

  test("exec: a client that does not read stops the process, and loses nothing", async () => {
    const client = await sessions.exec(id, ["sh", "-c", "head -c 30000000 /dev/zero; echo x > /tmp/done"]);
    client.stderr.resume();
    await delay(1_500);
    assert.equal((await pod.exec(id, "test", "-e", "/tmp/done")).exitCode, 1);
    let bytes = 0;
    client.stdout.on("data", (chunk: Buffer) => (bytes += chunk.length));
    assert.deepEqual([await client.result, bytes], [0, 30_000_000]);
  });

  const ofProcesses = { skip: needsEngineHost("processes") };

  test(
    "exec: a child that keeps the output after its parent ended ends with the client",
    ofProcesses,
    async () => {
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
    },
  );

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

  test("attach: watchers see the same of the streams they ask for, none of what was before, until the container ends", async () => {
    const id = await start(`echo before; ${onDemand}`);
    await until("it has begun", async () =>
      (await readFile((await pod.containerStatus(id)).log_path, "utf8")).includes("before"),
    );
    const outputAlone = await sessions.attach(id, { stderr: false });
    const [first, output] = [once(outputAlone.stdout, "data"), textOf(outputAlone.stdout)];
    const clients = await Promise.all(Array.from({ length: 3 }, () => sessions.attach(id)));
    const watches = clients.map(watch);
    await Promise.all([first, ...watches.map(({ attached }) => attached)]);
    await pod.shell(id, "touch /tmp/go");
    for (const { all } of watches) assert.deepEqual((await all).map(withoutDots), ["a\n", "b\n"]);
    assert.equal(withoutDots(await output), "a\n");
    for (const client of clients) assert.equal(await client.result, 0);
  });

  test("attach: with stdin_once the end of the input is the container's", async () => {
    const id = await start("cat; echo ended", { stdin: true, stdin_once: true });
    const client = await sessions.attach(id, { stdin: true });
    client.stderr.resume();
    client.stdin.end("hello\n");
    assert.equal(await textOf(client.stdout), "hello\nended\n");
    assert.equal(await client.result, 0);
  });

  test("attach: without stdin_once the next client goes on where the last one ended", async () => {
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

  test("attach: a terminal is the container's, whatever the request says, and follows the client's size", async () => {
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

  test("attach: a client that leaves closes its connection, and the container goes on", async () => {
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

  test("ExecSync: both streams and the exit code; a non-zero one is a normal answer", async () => {
    for (const code of [0, 255]) {
      const result = await pod.exec(id, "sh", "-c", `echo out; echo err >&2; exit ${String(code)}`);
      assert.deepEqual(result, { stdout: "out\n", stderr: "err\n", exitCode: code });
    }
    const killed = await pod.exec(id, "sh", "-c", "kill -9 $$");
    assert.equal(killed.exitCode, 137);
  });

  test("ExecSync: arguments and bytes are passed on as they are", async () => {
    const { stdout: said } = await pod.exec(id, "printf", "%s|", "a b", "$HOME", "`id`", "'\"", "ü");
    assert.equal(said, "a b|$HOME|`id`|'\"|ü|");
    const cmd = ["printf", "\\377\\000\\n\\303\\050"];
    const { stdout } = await bed.shim.cri.ExecSync({ container_id: id, cmd, timeout: "30" });
    assert.deepEqual([...stdout], [0xff, 0, 0x0a, 0xc3, 0x28]);
  });

  test("ExecSync: a command that does not exist is an answer or an error that says so, and not an empty success", async () => {
    const outcome = await pod.exec(id, "/no/such/program").then(
      ({ exitCode, stdout, stderr }) => ({ failed: exitCode !== 0, text: stdout + stderr }),
      (error: unknown) => ({ failed: true, text: String(error) }),
    );
    assert.ok(outcome.failed);
    assert.match(outcome.text, /no such file or directory/);
  });

  test("ExecSync: when the time limit passes, the process goes with all that it started, in whatever session", async () => {
    const mark = `9${String(process.pid)}`;
    const script = [
      `sleep ${mark}1 &`,
      `setsid sleep ${mark}2 &`,
      `setsid sh -c 'sleep ${mark}3 & sleep ${mark}4' &`,
      `(trap "" TERM HUP; sleep ${mark}5) &`,
      `sleep ${mark}6`,
    ].join(" ");
    const before = await commandLines(id);
    const call = bed.shim.cri.ExecSync({ container_id: id, cmd: ["sh", "-c", script], timeout: "3" });
    const all = until("all processes to run", async () => {
      const lines = (await commandLines(id)).filter((line) => line.startsWith(`sleep ${mark}`));
      return lines.length === 6;
    });
    await rejectsWith(call, "DEADLINE_EXCEEDED", /not finished after 3s/);
    await all;
    // docs/run/remote.md: nothing reaches the processes of an engine elsewhere.
    if (isEngineElsewhere) return;
    assert.deepEqual((await commandLines(id)).toSorted(), before.toSorted());
  });

  test("ExecSync: a caller that leaves ends the process with what it started, too", async () => {
    const mark = `8${process.pid}`;
    const leaver = new AbortController();
    const cmd = ["sh", "-c", `setsid sleep ${mark} & sleep ${mark}`];
    const call = bed.shim.cri.ExecSync({ container_id: id, cmd, timeout: "0" }, { signal: leaver.signal });
    const running = async () =>
      (await commandLines(id)).filter((line) => line.startsWith(`sleep ${mark}`)).length;
    await until("both to run", async () => (await running()) === 2);
    leaver.abort();
    await rejectsWith(call, "CANCELLED");
    if (isEngineElsewhere) return;
    await until("both to be gone", async () => (await running()) === 0);
  });
});
