import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, readFileSync, readlinkSync } from "node:fs";
import { getPriority } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startObservedRelay } from "../../../../src/compare/relay/observed-relay.js";
import { relayPaths } from "../../../../src/compare/relay/relay-link.js";
import { recordingFormat } from "../../../../src/compare/record/recording.js";
import { createRecording } from "../../../../src/compare/record/recorder.js";
import { silentLogger } from "../../../../src/lib/log.js";
import { modulePath, moduleWords, programWords } from "../../../support/program-words.js";
import { callUnary, connectClient, startEchoServer, temporaryDirectory } from "../grpc-peers.js";

const program = programWords();

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

type Bench = Awaited<ReturnType<typeof bench>>;

async function bench(t: TestContext) {
  const directory = temporaryDirectory(t);
  const [listen, primary] = [join(directory, "cri.sock"), join(directory, "primary.sock")];
  const recording = join(directory, "recording");
  const server = await startEchoServer(primary);
  t.after(() => server.stop());
  await createRecording(recording, {
    format: recordingFormat,
    version: 1,
    startedAt: "2026-01-31T00:00:00Z",
    server: {},
    node: { kernel: "", architecture: "", cpus: 1, memoryBytes: 1 },
  });
  const task = {
    kind: "record",
    paths: relayPaths(listen, primary),
    output: recording,
    startedMs: 0,
    limitBytes: 1e9,
    withOutput: false,
  };
  return {
    directory,
    listen,
    primary,
    recording,
    command: [...program, "observe-calls", JSON.stringify(task)] as const,
    guardCommand: [...program, "keep-link", JSON.stringify(task.paths)] as const,
  };
}

async function startRelay(
  t: TestContext,
  { listen, primary, command, guardCommand }: Bench,
  firstDelayMs?: number,
) {
  const options = { paths: relayPaths(listen, primary), log: silentLogger(), command, guardCommand };
  const relay = await startObservedRelay({
    ...options,
    ...(firstDelayMs === undefined ? {} : { firstDelayMs }),
  });
  const client = connectClient(listen);
  t.after(async () => {
    client.close();
    await relay.stop({ graceMs: 0 });
  });
  return { relay, client };
}

test("a killed observer is started again with a back-off, and calls go on meanwhile", async (t) => {
  const made = await bench(t);
  const { listen, primary } = made;
  // On a busy machine, too, the next call comes before the next start.
  const { relay, client } = await startRelay(t, made, 1500);
  const echo = async (): Promise<void> => {
    assert.equal((await callUnary(client, "Echo", Buffer.from("x"))).bytes?.toString(), "x");
  };
  await echo();
  const { pid } = relay.observer;
  assert.ok(pid !== undefined);
  // Clients wait for the link guard, and for the relay before the observer.
  const { pid: guard } = relay.guard;
  assert.deepEqual([getPriority(pid), getPriority(guard)], [10, getPriority()]);
  process.kill(pid, "SIGKILL");
  await until(() => relay.observer.pid === undefined);
  await echo();
  assert.ok(relay.observer.counts.dropped >= 1);
  await until(() => relay.observer.counts.starts === 2);
  await echo();
  assert.equal(relay.relay.counts.accepted, 1);
  await relay.stop({ graceMs: 0 });
  assert.equal(readlinkSync(listen), primary);
});

test("an observer that hangs delays no call; calls above the backlog are dropped and counted", async (t) => {
  const { relay, client } = await startRelay(t, await bench(t));
  const { pid } = relay.observer;
  assert.ok(pid !== undefined);
  process.kill(pid, "SIGSTOP");
  const request = Buffer.from(String(8 * 1024 * 1024));
  for (let index = 0; index < 8; index += 1)
    assert.equal((await callUnary(client, "Large", request)).bytes?.length, 8 * 1024 * 1024);
  assert.ok(relay.observer.counts.dropped >= 2);
  process.kill(pid, "SIGKILL");
});

/** A relay in a process of its own, which can be killed, and the ids of the processes beside it. */
async function startRelayProcess(
  t: TestContext,
  { listen, primary, command, guardCommand }: Bench,
): Promise<{ readonly relay: ChildProcess; readonly observer: number; readonly guard: number }> {
  const module = (path: string): string => JSON.stringify(modulePath(join("src", path)));
  const script = `
    import { startObservedRelay } from ${module("compare/relay/observed-relay.ts")};
    import { relayPaths } from ${module("compare/relay/relay-link.ts")};
    import { silentLogger } from ${module("lib/log.ts")};
    const { observer, guard } = await startObservedRelay({
      paths: relayPaths(${JSON.stringify(listen)}, ${JSON.stringify(primary)}),
      log: silentLogger(),
      command: ${JSON.stringify(command)},
      guardCommand: ${JSON.stringify(guardCommand)},
      firstDelayMs: 3_600_000,
    });
    process.stdout.write(JSON.stringify([observer.pid, guard.pid]));
  `;
  const [node, ...words] = moduleWords("--input-type=module", "--eval", script);
  const relay = spawn(node, words, { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => relay.kill("SIGKILL"));
  const [printed] = (await once(relay.stdout, "data")) as [Buffer];
  const [observer = 0, guard = 0] = JSON.parse(printed.toString()) as number[];
  return { relay, observer, guard };
}

function isAlive(pid: number): boolean {
  try {
    // A process that ended and that its parent has not waited for yet is a zombie.
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

test("when the relay is killed, the link leads to the server, and the client's next call is answered", async (t) => {
  const made = await bench(t);
  const { directory, listen, primary, recording } = made;
  const { relay } = await startRelayProcess(t, made);
  assert.equal(readlinkSync(listen), join(directory, ".cri.sock.relay"));
  const client = connectClient(listen);
  t.after(() => client.close());
  assert.equal((await callUnary(client, "Echo", Buffer.from("a"))).bytes?.toString(), "a");
  relay.kill("SIGKILL");
  await until(() => readlinkSync(listen) === primary);
  let answer: string | undefined;
  while (answer === undefined)
    answer = (await callUnary(client, "Echo", Buffer.from("b"), { deadlineMs: 5000 })).bytes?.toString();
  assert.equal(answer, "b");
  // The recording has its end.
  await until(() => readFileSync(recording, "utf8").includes('"end":true'));
});

for (const [what, which, signal] of [
  ["while its observer waits for its next start", "observer", "SIGKILL"],
  ["while its observer hangs", "observer", "SIGSTOP"],
  ["after its link guard", "guard", "SIGKILL"],
] as const)
  test(`when the relay is killed ${what}, the link leads to the server`, async (t) => {
    const made = await bench(t);
    const started = await startRelayProcess(t, made);
    process.kill(started[which], signal);
    if (signal === "SIGKILL") await until(() => !isAlive(started[which]));
    else t.after(() => process.kill(started[which], "SIGKILL"));
    started.relay.kill("SIGKILL");
    await until(() => readlinkSync(made.listen) === made.primary);
  });

test("a second relay on one path changes nothing", async (t) => {
  const { listen, primary, command, guardCommand } = await bench(t);
  const paths = relayPaths(listen, primary);
  const first = await startObservedRelay({ paths, log: silentLogger(), command, guardCommand });
  t.after(() => first.stop({ graceMs: 0 }));
  const before = lstatSync(listen).ino;
  await assert.rejects(startObservedRelay({ paths, log: silentLogger(), command, guardCommand }), {
    kind: "conflict",
    message: /another server answers there/,
  });
  assert.equal(lstatSync(listen).ino, before);
  assert.ok(existsSync(paths.relay));
});
