/** Engine requests of some pods, and files, that hang: what another pod feels of them. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ContainerState, PodSandboxState } from "../../src/domain/cri.js";
import { type CallOptions, type CriClient, rejectsWith } from "../support/cri-client.js";
import type { EngineProxy, ProxiedRequest } from "../support/engine-proxy.js";
import type { Pod } from "../support/pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

/** Calls that hang at the same time. */
const stuckCount = 40;
/** As many of their requests reach the engine also where further ones would wait for them. */
const leastStuck = 32;

describe("while 40 engine requests of other pods hang", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  let proxy: EngineProxy;
  let cri: CriClient;
  let pod: Pod;
  let containerId: string;
  let stuckPod: Pod;

  before(async () => {
    proxy = await bed.startProxy();
    ({ cri } = await bed.startShim({ dockerEndpoint: proxy.endpoint }));
    pod = await bed.runPod(cri);
    stuckPod = await bed.runPod(cri);
    containerId = await pod.start();
  });

  /** An exec, a create with start and removal, and a whole pod. */
  async function works(): Promise<void> {
    assert.equal((await pod.exec(containerId, "echo", "well")).stdout, "well\n");
    const id = await pod.start({ metadata: { name: bed.newName("c"), attempt: 0 } });
    await cri.RemoveContainer({ container_id: id });
    const own = await bed.runPod(cri);
    await own[Symbol.asyncDispose]();
  }

  /** The engine answers none of these requests until their callers leave, and another pod has worked before that. */
  async function feelsNothing(
    matches: (request: ProxiedRequest) => boolean,
    calls: readonly ((options: CallOptions) => Promise<unknown>)[],
  ): Promise<void> {
    const injection = proxy.inject({ fault: "stall", matches });
    const callers = new AbortController();
    const ended = Promise.all(
      calls.map((call) => rejectsWith(call({ signal: callers.signal }), "CANCELLED")),
    );
    ended.catch(() => undefined); // Awaited below.
    try {
      await until("them to hang", () => injection.strikes >= leastStuck);
      await works();
      callers.abort();
      await ended;
    } finally {
      callers.abort();
      injection.remove();
    }
  }

  function isOf(ids: readonly string[], ...methods: readonly string[]) {
    return ({ method, path }: ProxiedRequest): boolean =>
      methods.includes(method) && ids.some((id) => path.startsWith(`/containers/${id}`));
  }

  test("pods that are created: another pod works", async () => {
    const run = (options: CallOptions): Promise<unknown> => {
      const metadata = { namespace: "dockershim-test", uid: "u", attempt: 0, name: bed.newName("stuck") };
      return cri.RunPodSandbox({ config: { ...bed.podConfig(), metadata } }, options);
    };
    await feelsNothing(
      ({ path }) => path.startsWith("/containers/create?name=k8s_POD_stuck"),
      Array.from({ length: stuckCount }, () => run),
    );
  });

  test("containers that are started, have execs, and are removed: another pod works", async () => {
    const made = Array.from({ length: stuckCount }, () =>
      stuckPod.create({ metadata: { name: bed.newName("stuck"), attempt: 0 } }),
    );
    const ids = await Promise.all(made);
    const each = (
      call: (id: string) => (options: CallOptions) => Promise<unknown>,
    ): ((options: CallOptions) => Promise<unknown>)[] => ids.map(call);
    const start = (id: string) => (options: CallOptions) => cri.StartContainer({ container_id: id }, options);
    await feelsNothing(isOf(ids, "POST", "GET"), each(start));
    // One after another they find the engine at work on what was given up before.
    await Promise.all(each(start).map((call) => call({})));
    await feelsNothing(isOf(ids, "POST"), [
      ...each((id) => (options) => cri.ExecSync({ container_id: id, cmd: ["true"], timeout: "0" }, options)),
      ...each((id) => (options) => cri.StopContainer({ container_id: id, timeout: "0" }, options)),
    ]);
    await feelsNothing(
      isOf(ids, "DELETE"),
      each((id) => (options) => cri.RemoveContainer({ container_id: id }, options)),
    );
  });
});

describe("while all threads for files hang", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  const blockThreads = fileURLToPath(new URL("../support/block-threads.mjs", import.meta.url));

  test("commands run, and lists and statuses are answered", async () => {
    const fifo = join(await bed.newDirectory(), "fifo");
    await promisify(execFile)("mkfifo", [fifo]);
    const shim = await bed.startShim({
      nodeFlags: ["--import", blockThreads],
      environment: { DOCKERSHIM_TEST_FIFO: fifo },
    });
    const { cri } = shim;
    await using pod = await bed.runPod(cri);
    const id = await pod.start();
    process.kill(shim.pid, "SIGUSR2");
    await until("the threads to be blocked", () => shim.log.includes("threads blocked"));
    try {
      assert.equal((await pod.exec(id, "echo", "well")).stdout, "well\n");
      assert.equal((await pod.containerStatus(id)).state, ContainerState.CONTAINER_RUNNING);
      assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_READY);
      assert.equal((await cri.ListContainers({ filter: { id } })).containers.length, 1);
      assert.ok((await cri.Status({})).status?.conditions.every(({ status }) => status));
    } finally {
      await writeFile(fifo, "");
    }
  });
});
