/** The dialer's process: scripts in its place, and the real one in the namespace of this process. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { chmod, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, test, type TestContext } from "node:test";
import { recordingLog } from "../../fakes/recording-log.js";
import { modulePath, moduleWords } from "../../support/program-words.js";
import { rejectsWith } from "../../support/refusals.js";
import { textOf } from "../../fakes/fake-streaming.js";
import { turns } from "../../fakes/turns.js";
import { until } from "../../support/wait.js";
import { imageArchitecture, programPath } from "../../../src/shim/native/programs.js";
import { DialerProcess } from "../../../src/shim/pod-dialer/dialer-process.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { dialFailure, parseAnswer } from "../../../src/shim/pod-dialer/dialer-protocol.js";

const never = new AbortController().signal;

function dialerOf(program: string | (() => string), answerMarginMs = 2_000) {
  const log = recordingLog();
  const find = typeof program === "string" ? () => program : program;
  return { dialer: new DialerProcess({ program: find, connectTimeoutMs: 1_000, answerMarginMs, log }), log };
}

/** A dialer whose process is `script`, run by Node.js; `answer(line)` writes into the channel. */
async function scripted(t: TestContext, script: string, answerMarginMs?: number) {
  const directory = await temporaryDirectory();
  const path = `${directory.path}/dialer.mjs`;
  const helpers = `import { writeSync } from "node:fs";
const answer = (line) => writeSync(3, line + "\\n");
const onRequest = (use) => process.stdin.on("data", (bytes) => {
  for (let at = 0; at + 16 <= bytes.length; at += 16) use(bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4));
});
process.stdin.on("end", () => process.exit(0));
`;
  await writeFile(path, `#!${process.execPath}\n${helpers}${script}`);
  await chmod(path, 0o755);
  const made = dialerOf(path, answerMarginMs);
  t.after(async () => {
    await made.dialer.close();
    await directory[Symbol.asyncDispose]();
  });
  return made;
}

describe("DialerProcess with a process that misbehaves", () => {
  for (const { what, script, kind, message } of [
    {
      what: "a refusal",
      script: `onRequest((id) => answer(JSON.stringify({ id, step: "connect", errno: 111 })))`,
      kind: "unavailable",
      message: /^connection refused$/,
    },
    {
      what: "a connection that was sent and did not arrive",
      script: `onRequest((id) => answer(JSON.stringify({ id, sent: true })))`,
      kind: "exhausted",
      message: /got lost/,
    },
    {
      what: "an exit instead of an answer",
      script: `onRequest(() => process.exit(3))`,
      kind: "unavailable",
      message: /^the pod dialer was lost: (it ended with 3|its channel was closed)$/,
    },
    {
      what: "an exit before the request",
      script: `process.exit(4)`,
      kind: "unavailable",
      message: /was lost/,
    },
  ] as const) {
    test(`${what} is ${kind}`, async (t) => {
      const { dialer } = await scripted(t, script);
      await rejectsWith(dialer.connect(1, 80, never), kind, message);
    });
  }

  test("invalid answers are reported once each, without an effect", async (t) => {
    const { dialer, log } = await scripted(
      t,
      `onRequest((id) => {
  for (const line of ["[]", "7", '{"id":"x"}', '{"id":4000000000,"sent":true}']) answer(line);
  answer(JSON.stringify({ id, step: "connect", errno: 111 }));
})`,
    );
    await rejectsWith(dialer.connect(1, 80, never), "unavailable", /connection refused/);
    assert.equal(log.lines.filter(({ message }) => message.includes("invalid answer")).length, 3);
  });

  test("a process that does not answer is killed, and the next request starts another", async (t) => {
    const { dialer, log } = await scripted(t, `onRequest(() => undefined)`, -700);
    const first = dialer.connect(1, 80, never);
    await until("the process runs", async () => dialer.pid);
    const { pid } = dialer;
    await rejectsWith(first, "unavailable", /it does not answer/);
    const second = dialer.connect(1, 80, never);
    await until("another process runs", async () => dialer.pid !== undefined && dialer.pid !== pid);
    await rejectsWith(second, "unavailable", /it does not answer/);
    assert.equal(log.lines.filter(({ message }) => message === "the pod dialer was lost").length, 2);
  });

  test("an aborted request fails with the reason of its signal when the withdrawal is answered", async (t) => {
    const { dialer } = await scripted(
      t,
      `let withdrawn;
onRequest((id, namespace) => {
  if (namespace === 0xffffffff) withdrawn = id;
  if (namespace !== 2) return;
  if (withdrawn !== undefined) answer(JSON.stringify({ id: withdrawn, step: "withdraw", errno: 125 }));
  answer(JSON.stringify({ id, step: "connect", errno: 111 }));
})`,
    );
    await rejectsWith(dialer.connect(2, 80, never), "unavailable", /connection refused/);
    const caller = new AbortController();
    let isSettled = false;
    const gone = dialer.connect(1, 80, caller.signal).finally(() => (isSettled = true));
    gone.catch(() => undefined);
    await turns(2);
    caller.abort(new Error("the caller left"));
    await turns(5);
    assert.equal(isSettled, false);
    const other = dialer.connect(2, 80, never);
    await assert.rejects(gone, /the caller left/);
    await rejectsWith(other, "unavailable", /connection refused/);
  });

  test("a missing program, or one for another machine, is unsupported", async () => {
    const missing = dialerOf("/no/such/program").dialer;
    await rejectsWith(missing.connect(1, 80, never), "unsupported", /start "\/no\/such\/program".*ENOENT/);
    const foreign = dialerOf(() => programPath("pod-dialer", "riscv64", "")).dialer;
    await rejectsWith(foreign.connect(1, 80, never), "unsupported", /none for architecture "riscv64"/);
    await Promise.all([missing.close(), foreign.close()]);
  });
});

const unfit = imageArchitecture(process.arch) === undefined && `no dialer for ${process.arch}`;
const isRoot = process.getuid?.() === 0;

describe("the pod dialer", { skip: unfit || (!isRoot && "not root"), timeout: 60_000 }, () => {
  const { dialer, log } = dialerOf(() => programPath("pod-dialer", process.arch, ""));
  let namespace: number;
  let peers: Socket[] = [];
  let server: Server;
  let port: number;

  before(async () => {
    namespace = openSync("/proc/self/ns/net", "r");
    server = createServer({ allowHalfOpen: true }, (socket) => peers.push(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    ({ port } = server.address() as AddressInfo);
  });

  after(async () => {
    await dialer.close();
    for (const peer of peers) peer.destroy();
    server.close();
    closeSync(namespace);
    assert.deepEqual(log.linesAt("warn"), []);
  });

  async function connected(to = port): Promise<{ readonly socket: Socket; readonly peer: Socket }> {
    peers = [];
    const socket = await dialer.connect(namespace, to, never);
    const peer = await until("the server has it", async () => peers[0]);
    return { socket, peer };
  }

  test("passes on a connection whose directions end by themselves", async () => {
    const { socket, peer } = await connected();
    assert.equal(socket.remotePort, port);
    socket.end("question");
    assert.equal(await textOf(peer), "question");
    peer.end("answer");
    assert.equal(await textOf(socket), "answer");
    const other = await connected();
    other.peer.end("first");
    assert.equal(await textOf(other.socket), "first");
    other.socket.end("afterwards");
    assert.equal(await textOf(other.peer), "afterwards");
  });

  test("connects to ::1 when 127.0.0.1 refuses", async (t) => {
    const six = createServer((socket) => peers.push(socket)).listen(0, "::1");
    const outcome = await Promise.race([once(six, "listening"), once(six, "error")]);
    if (outcome.length > 0) {
      t.skip("no IPv6 on this machine");
      return;
    }
    const { socket } = await connected((six.address() as AddressInfo).port);
    assert.equal(socket.remoteAddress, "::1");
    socket.destroy();
    six.close();
  });

  test("reports a failed connect, and a file that is not a network namespace", async () => {
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const { port: free } = closed.address() as AddressInfo;
    closed.close();
    await once(closed, "close");
    await rejectsWith(dialer.connect(namespace, free, never), "unavailable", /^connection refused$/);
    const file = openSync("/dev/null", "r");
    const connecting = dialer.connect(file, port, never);
    await rejectsWith(connecting, "unavailable", /enter the network namespace: EINVAL/);
    closeSync(file);
  });

  test("ends a connect that times out, and a connect that is withdrawn", async () => {
    const stuck = await startStuckServer();
    try {
      await rejectsWith(dialer.connect(namespace, stuck.port, never), "timeout", /no answer after 1s/);
      const caller = new AbortController();
      const gone = dialer.connect(namespace, stuck.port, caller.signal);
      setTimeout(() => {
        caller.abort(new Error("the caller left"));
      }, 20);
      await assert.rejects(gone, /the caller left/);
    } finally {
      stuck.end();
    }
  });

  test("connects 200 at once and leaves no file open", async () => {
    const dialerFiles = async (): Promise<number> => (await readdir(`/proc/${String(dialer.pid)}/fd`)).length;
    const before = await dialerFiles();
    peers = [];
    const connects = Array.from({ length: 200 }, () => dialer.connect(namespace, port, never));
    const sockets = await Promise.all(connects);
    assert.equal(new Set(sockets.map(({ localPort }) => localPort)).size, 200);
    await Promise.all(
      sockets.map(async (socket) => {
        socket.destroy();
        await once(socket, "close");
      }),
    );
    assert.ok((await dialerFiles()) <= before);
  });

  test("has no files but its two pipes and its own network namespace", async () => {
    const { pid } = dialer;
    const home = await readlink("/proc/self/ns/net");
    for (const name of await readdir(`/proc/${String(pid)}/fd`)) {
      const target = await readlink(`/proc/${String(pid)}/fd/${name}`);
      if (target !== home) assert.match(target, /^(socket:|pipe:|\/dev\/null)/, `${name} is ${target}`);
    }
  });

  test("a connection beyond the limit of open files is exhausted, and the dialer keeps running", () => {
    const words = moduleWords(modulePath("test/support/dial-without-room.ts"));
    const command = 'ulimit -n 200 && exec "$0" "$@"';
    const { stdout, stderr } = spawnSync("sh", ["-c", command, ...words], { encoding: "utf8" });
    assert.match(stdout, /"full":"[^"]*too many open files"/, stderr);
    const { first, again, isSame, warnings } = JSON.parse(stdout) as Record<string, unknown>;
    assert.deepEqual([first, again, isSame, warnings], ["connected", "connected", true, 0]);
  });

  test("exits at the end of its input, and ignores SIGTERM and SIGINT", async () => {
    const own = dialerOf(() => programPath("pod-dialer", process.arch, "")).dialer;
    (await own.connect(namespace, port, never)).destroy();
    const { pid } = own;
    assert.ok(pid !== undefined);
    process.kill(pid, "SIGTERM");
    process.kill(pid, "SIGINT");
    (await own.connect(namespace, port, never)).destroy();
    assert.equal(own.pid, pid);
    await own.close();
    await until("it is gone", async () => !(await readdir("/proc")).includes(String(pid)));
    await rejectsWith(own.connect(namespace, port, never), "cancelled", /stopping/);
  });

  test("is started again after it was killed", async () => {
    const own = dialerOf(() => programPath("pod-dialer", process.arch, "")).dialer;
    (await own.connect(namespace, port, never)).destroy();
    const { pid } = own;
    assert.ok(pid !== undefined);
    process.kill(pid, "SIGKILL");
    await until("its end is known", async () => own.pid === undefined);
    (await own.connect(namespace, port, never)).destroy();
    assert.notEqual(own.pid, pid);
    await own.close();
  });
});

/** A server that does not run, with its backlog full: the kernel drops what comes on top. */
async function startStuckServer(): Promise<{ readonly port: number; readonly end: () => void }> {
  const script = `const s = require("net").createServer().listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => {
  process.stdout.write(String(s.address().port) + "\\n", () => process.kill(process.pid, "SIGSTOP"));
});`;
  const owner = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(owner.stdout, "data")) as [Buffer];
  const stuckPort = Number(line.toString());
  const status = (): Promise<string> => readFile(`/proc/${String(owner.pid)}/stat`, "utf8");
  await until("it has stopped", async () => / T /.test(await status()));
  const fillers = Array.from({ length: 8 }, () =>
    connect(stuckPort, "127.0.0.1").on("error", () => undefined),
  );
  await new Promise((resolve) => setTimeout(resolve, 100));
  return {
    port: stuckPort,
    end: () => {
      for (const filler of fillers) filler.destroy();
      owner.kill("SIGKILL");
    },
  };
}

describe("dialer protocol", () => {
  for (const [message, outcome] of [
    [{ id: 7, sent: true }, "sent"],
    [
      { id: 7, step: "connect", errno: 111 },
      { step: "connect", errno: 111 },
    ],
  ] as const) {
    test(`parseAnswer(${JSON.stringify(message)})`, () => {
      assert.deepEqual(parseAnswer(message, false), { id: 7, outcome });
    });
  }

  test("what is no answer is none", () => {
    const noIds = [null, undefined, 7, "7", [], {}, { id: "7" }, { id: -1 }, { id: 1.5 }, { id: 2 ** 33 }];
    const noOutcomes = [{}, { sent: 1 }, { step: "connect" }, { errno: 111 }, { step: 1, errno: 111 }];
    const texts = { step: "connect", errno: "111" };
    for (const message of [...noIds, ...[...noOutcomes, texts].map((rest) => ({ id: 7, ...rest }))])
      assert.equal(parseAnswer(message, false), undefined, JSON.stringify(message));
  });

  for (const { step, errno, kind, message } of [
    { step: "connect", errno: 111, kind: "unavailable", message: "connection refused" },
    { step: "connect", errno: 110, kind: "timeout", message: "no answer after 10s" },
    { step: "connect", errno: 101, kind: "unavailable", message: "ENETUNREACH" },
    { step: "connect", errno: 9999, kind: "unavailable", message: "Unknown system error -9999" },
    { step: "accept", errno: 11, kind: "exhausted", message: "too many connections are being made at once" },
    { step: "enter", errno: 1, kind: "unsupported", message: "enter the network namespace: EPERM" },
    { step: "enter", errno: 22, kind: "unavailable", message: "enter the network namespace: EINVAL" },
  ]) {
    test(`error ${String(errno)} of ${step} is ${kind}`, () => {
      const error = dialFailure({ step, errno }, 10_000);
      assert.deepEqual([error.kind, error.message], [kind, message]);
    });
  }
});
