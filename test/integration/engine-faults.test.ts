/** Every RPC with every fault of every engine request that it makes: the fault table, on a real engine. */
import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { status as codes } from "@grpc/grpc-js";
import type { StatusResponse } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { dockerJson, removeContainer } from "../support/docker.js";
import { isEngineElsewhere, needsEngineHost } from "../support/engine-host.js";
import type { EngineProxy, Fault, ProxiedRequest } from "../support/engine-proxy.js";
import {
  concerns,
  faults,
  faultTable,
  type FaultRow,
  type Outcome,
  requestName,
  withoutRequests,
} from "../support/fault-table.js";
import { RawClient } from "../support/hostile/raw-client.js";
import { Pod } from "../support/pod.js";
import { noRegistryReason, TestRegistry } from "../support/registry.js";
import type { ShimProcess } from "../support/shim-process.js";
import { openSpdy } from "../support/streaming-client.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";
import { imageScenarios } from "./fault-image-scenarios.js";
import { type Act, basicScenarios, quiet, removePod, type Scene } from "./fault-scenarios.js";
import { sessionScenarios } from "./fault-session-scenarios.js";

/** Of a call whose request is not answered. */
const deadlineMs = 1_000;
/** The shim's clock may be that much ahead of its caller's: what is asked for at its deadline cleans up. */
const deadlineSlackMs = 100;
/** Status waits for less. */
const statusDeadlineMs = 8_000;
/** How soon after the fault is gone all must be well. */
const recoveryMs = 10_000;
/** An attempt to connect that is not answered is given up after 30 s. */
const longRecoveryMs = 65_000;
const connectFaults: readonly Fault[] = long ? faults : ["cut", "garble"];
/** How soon after a call nothing of it may be open. */
const closingMs = 2_000;
/** Longest time that a request of an ended call stays open: the kill of an exec has 2 m. */
const cleanUpMs = 121_000;
/** A stream that says nothing for so long was accepted. */
const streamPatienceMs = 500;
const inspect = "GET /containers/ID/json";
/** Of a container that runs, on an engine elsewhere. */
const logs = "GET /containers/ID/logs";
const scenarios = { ...basicScenarios, ...sessionScenarios, ...imageScenarios };

/** Without `--long` reads are only cut, changes are done without an answer, and one of each RPC is not answered. */
function isQuick(row: FaultRow, fault: Fault): boolean {
  if (isRead(row)) return fault === "cut";
  const first = faultTable.find((one) => one.rpc === row.rpc && !isRead(one));
  return fault === "lose" || (fault === "stall" && row === first);
}

function isRead({ request, strikes }: FaultRow): boolean {
  return strikes === "every" && request.startsWith("GET");
}

function casesOf(row: FaultRow): readonly (readonly [Fault, Outcome])[] {
  return faults.flatMap((fault) => {
    const outcome = row.outcomes[fault];
    return outcome !== undefined && (long || isQuick(row, fault)) ? [[fault, outcome] as const] : [];
  });
}

/** For the shim alone: it writes what CRIU would write, which few machines have. */
const runcWithCriu = `#!/bin/sh
for word; do
  [ "$before" != --image-path ] || images=$word
  before=$word
done
mkdir "$images" && echo "memory of the stand-in" > "$images/pages-1.img"
`;

const skipAll = await reasonToSkip();
const apiMinor = skipAll === false ? await engineApiMinor() : 0;

describe("fault table", { skip: skipAll }, () => {
  const bed = TestBed.ofSuite();
  let proxy: EngineProxy;
  let shim: ShimProcess;
  let scene: Scene;

  before(async () => {
    proxy = await bed.startProxy();
    const programs = await bed.newDirectory();
    await writeFile(join(programs, "runc"), runcWithCriu, { mode: 0o755 });
    shim = await bed.startShim({
      dockerEndpoint: proxy.endpoint,
      environment: { PATH: `${programs}:${process.env["PATH"] ?? ""}` },
    });
    const pod = await Pod.run(bed, shim.cri, bed.podConfig());
    const containerId = await pod.start();
    const registry =
      noRegistryReason() === false
        ? bed.own(await TestRegistry.start(join(bed.directory, "registry")))
        : undefined;
    scene = { bed, proxy, cri: shim.cri, socket: shim.socket, pod, containerId, registry };
  });

  for (const row of faultTable.filter((one) => concerns(one, apiMinor))) {
    const skip = reasonOf(row.rpc);
    for (const [fault, outcome] of casesOf(row)) {
      const title = `${row.rpc}, ${row.request}, ${fault}: ${outcome}, and all is well afterwards`;
      test(title, { skip }, async () => {
        const prepare = scenarios[row.rpc];
        assert.ok(prepare !== undefined, "no scenario");
        const act = await prepare(scene);
        try {
          await strike(act, row, fault, outcome);
        } finally {
          await act.end?.();
        }
      });
    }
  }

  async function strike(act: Act, row: FaultRow, fault: Fault, outcome: Outcome): Promise<void> {
    const injection = proxy.inject({
      fault,
      matches: (request) => nameOf(request) === row.request,
      ...(row.strikes === "first" ? { nth: 1 } : {}),
    });
    try {
      const timeoutMs = timeoutOf(row, outcome);
      const beginMs = performance.now();
      assert.equal(await outcomeOf(act.call({ timeoutMs })), outcome);
      assert.ok(injection.strikes > 0, "the fault did not strike");
      if (outcome === "DEADLINE_EXCEEDED")
        await nothingStaysOpen(beginMs, beginMs + timeoutMs - deadlineSlackMs);
    } finally {
      injection.remove();
    }
    await soon(recoveryMs, async () => {
      if (outcome !== "OK") await (act.again ?? (() => act.call({ timeoutMs: 60_000 })))();
    });
    await soon(recoveryMs, () => act.holds());
  }

  /** Requests of the call have ended with it. What cleans up after it, and the read model's inspects, have own limits. */
  async function nothingStaysOpen(beginMs: number, endMs: number): Promise<void> {
    await soon(closingMs, () => {
      const ofTheCall = proxy.openRequests.filter(({ sinceMs }) => sinceMs >= beginMs && sinceMs < endMs);
      const open = ofTheCall.map(nameOf);
      assert.deepEqual(
        open.filter((name) => name !== inspect && name !== logs),
        [],
      );
    });
  }

  for (const request of ["GET /version", "GET /info", "GET /events", "GET /containers/json"]) {
    for (const fault of connectFaults) {
      test(`connecting again, ${request}, ${fault}: what happened meanwhile is seen in the end`, async () => {
        const { cri, pod } = scene;
        const name = bed.newName("c");
        const id = await pod.start({ metadata: { name, attempt: 0 }, log_path: `${name}.log` });
        const injection = proxy.inject({ fault, matches: (one) => nameOf(one) === request, nth: 1 });
        proxy.cutConnections();
        await removeContainer(id);
        await injection.struck;
        injection.remove();
        await soon(longRecoveryMs, async () => {
          await rejectsWith(pod.containerStatus(id), "NOT_FOUND");
          assert.equal(await outcomeOf(cri.Status({})), "OK");
        });
      });
    }
  }

  test("RPCs that the table says make no engine requests make none", async () => {
    const { cri, pod, containerId } = scene;
    const filter = { id: pod.id };
    const ids = { container_id: containerId };
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      Version: () => cri.Version({}),
      RuntimeConfig: () => cri.RuntimeConfig({}),
      UpdateRuntimeConfig: () => cri.UpdateRuntimeConfig({}),
      ListPodSandbox: () => cri.ListPodSandbox({ filter }),
      PodSandboxStatus: () => cri.PodSandboxStatus({ pod_sandbox_id: pod.id }),
      ListContainers: () => cri.ListContainers({}),
      ContainerStatus: () => cri.ContainerStatus(ids),
      ReopenContainerLog: () => cri.ReopenContainerLog(ids),
      UpdatePodSandboxResources: () => cri.UpdatePodSandboxResources({ pod_sandbox_id: pod.id }),
      Exec: () => cri.Exec({ ...ids, cmd: ["true"], stdout: true }),
      Attach: () => cri.Attach({ ...ids, stdout: true }),
      PortForward: () => cri.PortForward({ pod_sandbox_id: pod.id, port: [80] }),
      ContainerStats: () => cri.ContainerStats(ids),
      ListContainerStats: () => cri.ListContainerStats({}),
      PodSandboxStats: () => cri.PodSandboxStats({ pod_sandbox_id: pod.id }),
      ListPodSandboxStats: () => cri.ListPodSandboxStats({}),
      ListMetricDescriptors: () => cri.ListMetricDescriptors({}),
      ListPodSandboxMetrics: () => cri.ListPodSandboxMetrics({}),
      ...Object.fromEntries(withoutRequests.filter(isStream).map((name) => [name, () => stream(name)])),
      "PortForward session": forwardOnce,
    };
    assert.deepEqual(Object.keys(calls), withoutRequests);
    await cri.ContainerStatus(ids); // The names of its image are asked for once.
    const injections = (["stall"] as const).map((fault) =>
      proxy.inject({
        fault,
        matches: ({ path }) =>
          path.includes(pod.id) ||
          path.includes(containerId) ||
          path.startsWith("/images") ||
          path.startsWith("/system"),
      }),
    );
    // docs/run/remote.md: statistics of an engine elsewhere, and connections to its pods, go through its API.
    const ofEngine = isEngineElsewhere ? /Stats|Metrics|PortForward/ : /^$/;
    try {
      for (const [name, call] of Object.entries(calls))
        if (!ofEngine.test(name)) await assert.doesNotReject(call(), name);
      const strikes = injections.map((injection) => injection.strikes);
      // It reads them in the background, too.
      if (!isEngineElsewhere) assert.deepEqual(strikes, [0]);
    } finally {
      for (const injection of injections) injection.remove();
    }
  });

  async function stream(name: string): Promise<void> {
    using client = new RawClient(scene.socket);
    const path = `/runtime.v1.RuntimeService/${name}`;
    const { code, details } = await client.stream(path, Buffer.alloc(0), streamPatienceMs);
    assert.equal(code, codes.OK, `${name}: ${details}`);
  }

  /** To a port without a listener: the answer is that of the pod. */
  async function forwardOnce(): Promise<void> {
    const { url } = await scene.cri.PortForward({ pod_sandbox_id: scene.pod.id, port: [] });
    const client = await openSpdy(url, ["portforward.k8s.io"]);
    const headers = { port: "9", requestid: "0" };
    const error = client.open({ streamtype: "error", ...headers }, { fin: true });
    client.open({ streamtype: "data", ...headers });
    assert.match(await error.text(), /refused/);
    client.socket.destroy();
  }

  for (const [rpc, prepare] of Object.entries(scenarios)) {
    const skip = reasonOf(rpc);
    test(`${rpc}: each engine request that it makes is in the table`, { skip }, async () => {
      const act = await prepare(scene);
      try {
        await quiet(proxy);
        proxy.forget();
        await act.call({ timeoutMs: 30_000 });
        const rows = faultTable.filter(
          (row) => concerns(row, apiMinor) && (rpc === row.rpc || rpc.startsWith(`${row.rpc} `)),
        );
        // An inspect may be the read model's.
        const known = new Set([
          ...rows.map(({ request }) => request),
          inspect,
          ...(isEngineElsewhere ? [logs] : []),
        ]);
        const unknown = proxy.requests.map(nameOf).filter((name) => !known.has(name));
        assert.deepEqual(unknown, []);
      } finally {
        await act.end?.();
      }
    });
  }

  test("no container, record, log or request remains", async () => {
    const { cri, pod } = scene;
    await removePod(cri, pod.id);
    assert.deepEqual(await bed.ownContainers(), []);
    for (const part of ["sandbox", "pods", "containers", "logs"]) {
      assert.deepEqual(await readdir(join(shim.stateDirectory, part)), [], part);
    }
    await soon(cleanUpMs, () => {
      assert.deepEqual(proxy.openRequests.map(nameOf), []);
    });
    assert.doesNotMatch(shim.log, /bug of dockershim|unhandled/i);
  });
});

async function engineApiMinor(): Promise<number> {
  const { ApiVersion } = (await dockerJson("GET", "/version")) as { readonly ApiVersion: string };
  return Number(ApiVersion.split(".")[1]);
}

/** Why there is none of the RPC's cases here, or false. */
function reasonOf(rpc: string): string | false {
  if (rpc === "PullImage") return noRegistryReason();
  // The OCI runtime of the container must be in reach.
  return rpc === "CheckpointContainer" && needsEngineHost("files");
}

function isStream(name: string): boolean {
  return /^Stream|^GetContainerEvents$/.test(name);
}

function nameOf({ method, path }: ProxiedRequest): string {
  return requestName(method, path);
}

function timeoutOf(row: FaultRow, outcome: Outcome): number {
  if (outcome === "DEADLINE_EXCEEDED") return deadlineMs;
  return row.rpc === "Status" ? statusDeadlineMs : 30_000;
}

async function outcomeOf(answer: Promise<unknown>): Promise<string> {
  try {
    const { status } = ((await answer) ?? {}) as { readonly status?: Partial<StatusResponse["status"]> };
    const isReady = status?.conditions?.every((condition) => condition.status) ?? true;
    return isReady ? "OK" : "NOT_READY";
  } catch (error) {
    const { code, message } = error as { code?: number; message: string };
    return code === undefined ? message : (codes[code] ?? String(code));
  }
}

/** Returns when `check` does, which must be before the time is over. */
async function soon(withinMs: number, check: () => Promise<void> | void): Promise<void> {
  const end = Date.now() + withinMs;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await sleep(50);
  }
}
