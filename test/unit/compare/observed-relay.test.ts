import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startObservedRelay } from "../../../src/compare/observed-relay.js";
import { relayPaths } from "../../../src/compare/relay-link.js";
import { recordingFormat } from "../../../src/compare/recording.js";
import { createRecording } from "../../../src/compare/recorder.js";
import { silentLogger } from "../../../src/shim/lib/log.js";
import { callUnary, connectClient, startEchoServer, temporaryDirectory } from "./grpc-peers.js";

const program = [process.execPath, "--import", "tsx", "src/shim/main.ts"] as const;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

interface Bench {
  readonly directory: string;
  readonly listen: string;
  readonly primary: string;
  readonly recording: string;
  readonly command: [string, ...string[]];
}

async function bench(t: TestContext): Promise<Bench> {
  const directory = temporaryDirectory(t);
  const [listen, primary] = [join(directory, "cri.sock"), join(directory, "primary.sock")];
  const recording = join(directory, "recording");
  const server = await startEchoServer(primary);
  t.after(() => {
    server.stop();
  });
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
    command: [...program, "observe-calls", JSON.stringify(task)],
  };
}

test("a killed observer is started again with a back-off, and calls go on meanwhile", async (t) => {
  const { listen, primary, command } = await bench(t);
  const relay = await startObservedRelay({
    paths: relayPaths(listen, primary),
    log: silentLogger(),
    command,
    firstDelayMs: 50,
  });
  const client = connectClient(listen);
  t.after(async () => {
    client.close();
    await relay.stop({ graceMs: 0 });
  });
  const echo = async (): Promise<void> => {
    assert.equal((await callUnary(client, "Echo", Buffer.from("x"))).bytes?.toString(), "x");
  };
  await echo();
  const { pid } = relay.observer;
  assert.ok(pid !== undefined);
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
  const { listen, primary, command } = await bench(t);
  const relay = await startObservedRelay({
    paths: relayPaths(listen, primary),
    log: silentLogger(),
    command,
  });
  const client = connectClient(listen);
  t.after(async () => {
    client.close();
    await relay.stop({ graceMs: 0 });
  });
  const { pid } = relay.observer;
  assert.ok(pid !== undefined);
  process.kill(pid, "SIGSTOP");
  const request = Buffer.from(String(8 * 1024 * 1024));
  for (let index = 0; index < 8; index += 1) {
    assert.equal((await callUnary(client, "Large", request)).bytes?.length, 8 * 1024 * 1024);
  }
  assert.ok(relay.observer.counts.dropped >= 2);
  process.kill(pid, "SIGKILL");
});

test("when the relay is killed, the link leads to the server, and the client's next call is answered", async (t) => {
  const { directory, listen, primary, command, recording } = await bench(t);
  const script = `
    import { startObservedRelay } from ${JSON.stringify(join(process.cwd(), "src/compare/observed-relay.ts"))};
    import { relayPaths } from ${JSON.stringify(join(process.cwd(), "src/compare/relay-link.ts"))};
    import { silentLogger } from ${JSON.stringify(join(process.cwd(), "src/shim/lib/log.ts"))};
    await startObservedRelay({
      paths: relayPaths(${JSON.stringify(listen)}, ${JSON.stringify(primary)}),
      log: silentLogger(),
      command: ${JSON.stringify(command)},
    });
    process.stdout.write("ready");
  `;
  const relay = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => relay.kill("SIGKILL"));
  await once(relay.stdout, "data");
  assert.equal(readlinkSync(listen), join(directory, ".cri.sock.relay"));
  const client = connectClient(listen);
  t.after(() => {
    client.close();
  });
  assert.equal((await callUnary(client, "Echo", Buffer.from("a"))).bytes?.toString(), "a");
  relay.kill("SIGKILL");
  await until(() => readlinkSync(listen) === primary);
  let answer: string | undefined;
  while (answer === undefined) {
    answer = (await callUnary(client, "Echo", Buffer.from("b"), { deadlineMs: 5000 })).bytes?.toString();
  }
  assert.equal(answer, "b");
  // The recording has its end.
  await until(() => readFileSync(recording, "utf8").includes('"end":true'));
});

test("a second relay on one path changes nothing", async (t) => {
  const { listen, primary, command } = await bench(t);
  const paths = relayPaths(listen, primary);
  const first = await startObservedRelay({ paths, log: silentLogger(), command });
  t.after(() => first.stop({ graceMs: 0 }));
  const before = lstatSync(listen).ino;
  await assert.rejects(startObservedRelay({ paths, log: silentLogger(), command }), {
    kind: "conflict",
    message: /another server answers there/,
  });
  assert.equal(lstatSync(listen).ino, before);
  assert.ok(existsSync(paths.relay));
});
