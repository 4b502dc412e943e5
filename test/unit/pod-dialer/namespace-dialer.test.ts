/** How the connects of pods share the dialer's process. */
import assert from "node:assert/strict";
import { openSync, closeSync, fstatSync, readlinkSync } from "node:fs";
import { Socket, createServer, type AddressInfo } from "node:net";
import { test, describe, type TestContext } from "node:test";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { sandboxSnapshot } from "../../fakes/snapshots.js";
import { turns } from "../../fakes/turns.js";
import { NamespaceDialer } from "../../../src/shim/pod-dialer/namespace-dialer.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { rejectsWith } from "../../support/refusals.js";
import { until } from "../../support/wait.js";
import { imageArchitecture, programPath } from "../../../src/shim/native/programs.js";
import { DialerProcess } from "../../../src/shim/pod-dialer/dialer-process.js";

const never = new AbortController().signal;
const perPod = 48;
const podsThatFillAll = 5;

/** A process in which each connect hangs until it is answered; the port stands for the connect. */
class HangingProcess {
  /** Ports of the connects that have reached it. */
  readonly begun: number[] = [];
  readonly settled: Promise<unknown>[] = [];
  readonly #answers = new Map<number, () => void>();
  readonly #dialer = new NamespaceDialer(
    {
      connect: (_namespace, port) =>
        new Promise((resolve) => {
          this.begun.push(port);
          this.#answers.set(port, () => {
            resolve(new Socket());
          });
        }),
    },
    () => ({ openNetworkNamespace: () => openSync("/dev/null", "r") }),
  );
  #lastPort = 0;

  /** Begins `count` connects to a pod. */
  connect(pod: string, count: number, signal = never): readonly number[] {
    return Array.from({ length: count }, () => {
      const port = (this.#lastPort += 1);
      this.settled.push(this.#dialer.connect(sandboxSnapshot(pod), port, signal).catch(() => undefined));
      return port;
    });
  }

  async answer(port: number | undefined): Promise<void> {
    this.#answers.get(port ?? 0)?.();
    await turns(5);
  }

  /** Answers all, also those that begin because of it. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const port of this.begun) await this.answer(port);
    await Promise.all(this.settled);
  }
}

test("a pod that accepts no connection holds 48 connects, and those of another pod begin at once", async () => {
  await using process = new HangingProcess();
  const stuck = process.connect("stuck", 300);
  await turns(5);
  assert.deepEqual(process.begun, stuck.slice(0, perPod));
  const [other] = process.connect("other", 1);
  await turns(5);
  assert.equal(process.begun.at(-1), other);
  await process.answer(stuck[0]);
  assert.deepEqual(process.begun.slice(perPod + 1), [stuck[perPod]], "the next one of that pod");
});

test("with 240 connects under way those of one pod more begin as others end, and not after the pods' own ones", async () => {
  await using process = new HangingProcess();
  const stuck = Array.from({ length: podsThatFillAll }, (_, pod) => process.connect(`stuck${pod}`, 100));
  await turns(5);
  assert.equal(process.begun.length, podsThatFillAll * perPod);
  const left = new AbortController();
  process.connect("other", 1, left.signal);
  const [second, third] = process.connect("other", 2);
  await turns(5);
  assert.equal(process.begun.length, podsThatFillAll * perPod);
  left.abort(new Error("the caller left"));
  // The waiting ones of the pod itself are behind its limit, not in the queue for the process.
  await process.answer(stuck[0]?.[0]);
  await process.answer(stuck[1]?.[0]);
  assert.deepEqual(process.begun.slice(podsThatFillAll * perPod), [second, third]);
});

/** The real dialer with network namespaces of pods. */
const unfit =
  imageArchitecture(process.arch) === undefined
    ? `no dialer for ${process.arch}`
    : spawnSync("unshare", ["-n", "true"]).status !== 0 && "no new network namespace to be had";

const namespaceOf = (pid: number | "self" | undefined): string => readlinkSync(`/proc/${String(pid)}/ns/net`);

function realDialer(t: TestContext): DialerProcess {
  const program = (): string => programPath("pod-dialer", process.arch, "");
  const dialer = new DialerProcess({ program, connectTimeoutMs: 10_000, log: recordingLog() });
  t.after(() => dialer.close());
  return dialer;
}

/** A process in a network namespace of its own, where even the loopback is down. */
async function startPod(t: TestContext): Promise<number> {
  const pod = spawn("unshare", ["-n", "sleep", "infinity"], { stdio: "ignore" });
  t.after(() => pod.kill("SIGKILL"));
  const { pid } = pod;
  assert.ok(pid !== undefined);
  await until("it has its namespace", () => namespaceOf(pid) !== namespaceOf("self"));
  return pid;
}

describe("the pod dialer and pods' network namespaces", { skip: unfit, timeout: 60_000 }, () => {
  test("stays in its own, so that a namespace is removed with its pod", async (t) => {
    const dialer = realDialer(t);
    const pod = openSync(`/proc/${String(await startPod(t))}/ns/net`, "r");
    const own = openSync("/proc/self/ns/net", "r");
    const server = createServer().listen(0, "127.0.0.1");
    t.after(() => {
      server.close();
      closeSync(own);
    });
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    // The server is here, and nothing can be reached there: so the connect was made there.
    await rejectsWith(dialer.connect(pod, port, never), "unavailable", /ENETUNREACH|EADDRNOTAVAIL/);
    closeSync(pod);
    assert.equal(namespaceOf(dialer.pid), namespaceOf("self"));
    (await dialer.connect(own, port, never)).destroy();
    assert.equal(namespaceOf(dialer.pid), namespaceOf("self"));
  });

  test("the descriptor of an aborted request is closed when the dialer does not use it any more", async (t) => {
    const program = realDialer(t);
    const pod = await startPod(t);
    const sandbox = sandboxSnapshot("s1");
    let namespace = -1;
    const openNetworkNamespace = (): number => (namespace = openSync(`/proc/${String(pod)}/ns/net`, "r"));
    const dialer = new NamespaceDialer(program, () => ({ openNetworkNamespace }));
    await rejectsWith(dialer.connect(sandbox, 80, never), "unavailable");
    assert.ok(program.pid !== undefined);
    process.kill(program.pid, "SIGSTOP"); // As on a busy host, where it does not get its turn at once.
    const caller = new AbortController();
    const gone = dialer.connect(sandbox, 80, caller.signal);
    gone.catch(() => undefined);
    await turns(2);
    caller.abort(new Error("the caller left"));
    await turns(5);
    const next = openSync("/proc/self/ns/net", "r"); // Another pod's.
    t.after(() => {
      closeSync(next);
    });
    assert.notEqual(next, namespace);
    process.kill(program.pid, "SIGCONT");
    await assert.rejects(gone, /the caller left/);
    assert.throws(() => fstatSync(namespace), /EBADF/);
  });
});
