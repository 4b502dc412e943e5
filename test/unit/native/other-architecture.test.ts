/** The programs for the architecture that this machine has not, under an emulator: each does its work once. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { HelperCalls } from "../../../src/play/remote-engine/helper-calls.js";
import { HostPaths } from "../../../src/shim/host/host-paths/host-paths.js";
import { HelperProcess } from "../../../src/shim/native/helper-process.js";
import { type ProgramName, programPath } from "../../../src/shim/native/programs.js";
import { runProgram } from "../../../src/shim/native/run-program.js";
import { DialerProcess } from "../../../src/shim/pod-dialer/dialer-process.js";
import { RelayStream } from "../../../src/shim/pod-dialer/relay-stream.js";
import type { ProcessStreams } from "../../../src/shim/ports/engine.js";
import { byHelper } from "../../../src/shim/stats/layer-measurement.js";
import { textOf } from "../../fakes/fake-streaming.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = new AbortController().signal;
const isArm = process.arch === "arm64";
const other = isArm ? "amd64" : "arm64";
const emulator = isArm ? "qemu-x86_64-static" : "qemu-aarch64-static";

function reasonToSkip(): string | false {
  if (process.platform !== "linux") return "not on Linux";
  if (spawnSync(emulator, ["--version"]).status !== 0) return `${emulator} is not installed`;
  return process.getuid?.() === 0 ? false : "not root";
}

/** A process as the engine gives it, with the emulator in the engine's place. */
function emulated(name: ProgramName, ...words: readonly string[]) {
  const child = spawn(emulator, [programPath(name, other, ""), ...words], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const streams: ProcessStreams = {
    input: child.stdin,
    readOutput: async (take) => {
      for await (const chunk of child.stdout) await take("stdout", chunk as Buffer, true);
    },
    close: () => child.stdin.end(),
  };
  return { streams, ended };
}

describe(`the programs for ${other}`, { skip: reasonToSkip(), timeout: 120_000 }, () => {
  const log = recordingLog();
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let helper: HelperProcess;

  /** A file that runs the program. */
  async function wrapped(name: ProgramName): Promise<string> {
    const path = join(directory.path, name);
    await writeFile(path, `#!/bin/sh\nexec ${emulator} ${programPath(name, other, "")} "$@"\n`, {
      mode: 0o755,
    });
    return path;
  }

  before(async () => {
    directory = await temporaryDirectory();
    const path = await wrapped("helper");
    helper = new HelperProcess({ program: () => path, log });
  });
  after(async () => {
    await helper.close();
    await directory[Symbol.asyncDispose]();
    assert.deepEqual(log.linesAt("warn"), []);
  });

  test("the helper starts programs, with their input, output and exit code", async () => {
    const script = 'read -r line; echo "out $line $0"; echo err >&2; exit 3';
    const request = {
      program: "sh",
      words: ["-c", script, "word"],
      environment: { PATH: process.env["PATH"] },
    };
    const limits = { stdoutBytes: 1024, stderrBytes: 1024, deathMs: 60_000, signal: never };
    const exit = await runProgram(helper.start, request, { ...limits, input: "line\n" });
    assert.deepEqual([exit.stdout, exit.stderr, exit.exitCode], ["out line word\n", "err\n", 3]);
  });

  test("the helper finds and makes sources of mounts", async () => {
    const paths = new HostPaths({ startVerb: helper.startVerb, log });
    const [made, missing] = [join(directory.path, "made", "b"), join(directory.path, "missing")];
    const found = await paths.find({ look: [missing], make: [made], devices: [] }, "pod", never);
    assert.deepEqual([found?.mounts.get(made), found?.mounts.get(missing)], ["made", "missing"]);
    assert.ok((await stat(made)).isDirectory());
  });

  test("the helper measures a directory", async () => {
    const path = join(directory.path, "layer");
    await mkdir(path);
    await writeFile(join(path, "file"), Buffer.alloc(100_000, 1));
    const { blocks } = await stat(join(path, "file"));
    const own = await stat(path);
    const usage = await byHelper(path, helper.startVerb, never);
    assert.deepEqual([usage?.usedBytes, usage?.inodes], [(blocks + own.blocks) * 512, 2]);
  });

  test("the helper writes files of play", async (t) => {
    const root = join(directory.path, "volumes");
    await mkdir(join(root, "dockershim-play"), { recursive: true });
    const words = ["play-files", root, "dockershim-play"];
    // Its exit code for a system call that fails: openat2, which the emulator has from 9 on.
    if (spawnSync(emulator, [programPath("helper", other, ""), ...words], { input: "" }).status === 3) {
      t.skip(`this ${emulator} has no openat2`);
      return;
    }
    const { streams, ended } = emulated("helper", ...words);
    const calls = new HelperCalls(streams, root, root, undefined);
    const file = join(root, "dockershim-play", "f");
    await calls.createFile(file, Buffer.from("text"), 0o640);
    calls[Symbol.dispose]();
    await ended;
    assert.equal(await readFile(file, "utf8"), "text");
    assert.equal((await stat(file)).mode & 0o7777, 0o640);
  });

  for (const program of ["pod-dialer", "port-forward"] as const)
    test(`${program} connects, and carries both directions to their ends`, async () => {
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        void textOf(socket).then((text) => socket.end(`answer to ${text}`));
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      const namespace = openSync("/proc/self/ns/net", "r");
      const path = await wrapped("pod-dialer");
      const dialer = new DialerProcess({ program: () => path, connectTimeoutMs: 60_000, log });
      try {
        const connect = async () => {
          if (program === "pod-dialer") return dialer.connect(namespace, port, never);
          const stream = new RelayStream(emulated(program, String(port)).streams);
          await stream.open(60_000);
          return stream;
        };
        const connection = await connect();
        connection.end("question");
        assert.equal(await textOf(connection), "answer to question");
      } finally {
        await dialer.close();
        closeSync(namespace);
        server.close();
      }
    });
});
