import assert from "node:assert/strict";
import { closeSync, fstatSync, statSync } from "node:fs";
import { before, describe, test } from "node:test";
import { EngineHost } from "../../src/shim/host/engine-host.js";
import { findContainerd, findDockerd } from "../../src/shim/host/processes/find-engine.js";
import { hasEnded } from "../../src/lib/linux/process-stat.js";
import { isCgroupOf, ProcFiles } from "../../src/shim/host/processes/proc-files.js";
import type { ProcessStreams } from "../../src/shim/ports/engine.js";
import type { HostAccess } from "../../src/shim/ports/host.js";
import { dockerSocket } from "../support/docker.js";
import { needsEngineHost } from "../support/engine-host.js";
import { until } from "../support/wait.js";
import { anySignal, type TestContainer } from "../support/engine-contract.js";
import { engineOfSuite, proofsOf, reasonToSkip } from "./engine-support.js";

const proc = new ProcFiles();

/** Living processes of the container, its first one included, in ascending order. */
async function processesOf(containerId: string): Promise<readonly number[]> {
  const living = (await proc.processes()).filter((stat) => !hasEnded(stat)).map(({ pid }) => pid);
  const own = await proc.mapDefined(living, async (pid) =>
    isCgroupOf(containerId, await proc.text(pid, "cgroup")) ? pid : undefined,
  );
  return [...own].sort((a, b) => a - b);
}

describe(
  "LocalHost.killProcessTree() with a real engine",
  { skip: (await reasonToSkip()) || needsEngineHost("processes"), timeout: 120_000 },
  () => {
    const at = engineOfSuite();
    let host: HostAccess;
    let container: TestContainer;

    before(async () => {
      const found = await EngineHost.connected(at.facts, proofsOf(at.engine), anySignal());
      container = await at.container();
      await at.engine.startContainer(container.id, anySignal());
      assert.equal(found.reach.jobs.processes.reached, false);
      await found.observe(await at.engine.inspectContainer(container.id, anySignal()), anySignal());
      ({ host } = found);
      const reached = Object.values(host.reach.jobs).map(({ reached }) => reached);
      assert.deepEqual(reached, [true, true, true, true, true], JSON.stringify(host.reach));
    });

    /** Runs a script until the container has `count` processes more; the pid is that of the script. */
    async function exec(script: string, count: number): Promise<{ pid: number; streams: ProcessStreams }> {
      const { length } = await processesOf(container.id);
      const options = { command: ["sh", "-c", script], tty: false, stdin: false, stdout: true, stderr: true };
      const execId = await at.engine.createExec(container.id, options, anySignal());
      const streams = await at.engine.startExec(execId, options, anySignal());
      const state = await until("the engine knows the exec's process", async () => {
        const found = await at.engine.inspectExec(execId, anySignal());
        return found !== undefined && found.pid > 0 && found;
      });
      await until("all processes of the exec run", async () => {
        return (await processesOf(container.id)).length === length + count;
      });
      return { pid: state.pid, streams };
    }

    const scripts: readonly (readonly [what: string, script: string, count: number])[] = [
      ["one process", "exec sleep 600", 1],
      ["a tree", "sleep 600 & busybox setsid sleep 600 & (sleep 600 & sleep 600 &); sleep 600; :", 6],
      ["a session whose leader has ended", "sleep 600 & sleep 600 & exit 0", 2],
    ];
    for (const [what, script, count] of scripts) {
      test(`ends an exec of ${what} and leaves the container's own process and another exec alone`, async () => {
        const own = await processesOf(container.id);
        const other = await exec("exec sleep 600", 1);
        const { pid, streams } = await exec(script, count);
        try {
          assert.equal(await host.killProcessTree(container.id, pid, anySignal()), true);
          assert.deepEqual(
            await processesOf(container.id),
            [...own, other.pid].sort((a, b) => a - b),
          );
        } finally {
          streams.close();
          assert.equal(await host.killProcessTree(container.id, other.pid, anySignal()), true);
          other.streams.close();
        }
        assert.deepEqual(await processesOf(container.id), own);
      });
    }

    test("leaves a process of another container alone", async () => {
      await using other = await at.container();
      await at.engine.startContainer(other.id, anySignal());
      const [pid = 0] = await processesOf(container.id);
      assert.equal(await host.killProcessTree(other.id, pid, anySignal()), false);
      assert.deepEqual(await processesOf(container.id), [pid]);
    });

    test("networkNamespace() names that of the running container only", async () => {
      const snapshot = await at.engine.inspectContainer(container.id, anySignal());
      assert.ok(snapshot !== undefined);
      const netns = host.networkNamespace(snapshot)?.netns;
      assert.equal(netns, `/proc/${String(snapshot.state.pid)}/ns/net`);
      await using stopped = await at.container();
      const created = await at.engine.inspectContainer(stopped.id, anySignal());
      assert.ok(created !== undefined);
      assert.equal(host.networkNamespace(created), undefined);
    });

    test("openNetworkNamespace() opens that of the running container only", async () => {
      const snapshot = await at.engine.inspectContainer(container.id, anySignal());
      assert.ok(snapshot !== undefined);
      const descriptor = host.openNetworkNamespace(snapshot);
      assert.ok(descriptor !== undefined);
      try {
        const path = `/proc/${String(snapshot.state.pid)}/ns/net`;
        assert.equal(fstatSync(descriptor).ino, statSync(path).ino);
      } finally {
        closeSync(descriptor);
      }
      const { state } = snapshot;
      for (const pid of [process.pid, 0])
        assert.equal(host.openNetworkNamespace({ ...snapshot, state: { ...state, pid } }), undefined);
    });

    test("the engine's own processes are found by their sockets", async () => {
      const dockerd = await findDockerd(proc, dockerSocket, []);
      assert.ok(dockerd !== undefined);
      assert.deepEqual(await findDockerd(proc, dockerSocket), dockerd);
      const containerd = await findContainerd(proc, dockerd);
      assert.ok(containerd !== undefined);
      assert.equal(await proc.command(containerd.pid), "containerd");
    });
  },
);
