/** The sessions of Exec, Attach and PortForward on the real engine, opened without a network in between. */
import type { Call } from "../../src/lib/call.js";
import { Lifetime } from "../../src/lib/lifetime.js";
import type { Services } from "../../src/shim/cri/services.js";
import { createPodDialer } from "../../src/shim/app/open-pod-dialer.js";
import type { AttachRequest, ExecRequest } from "../../src/domain/cri.js";
import { type DockerEngine, dockerEngine } from "../../src/shim/engine/docker-engine.js";
import { EngineHost, unknownHost } from "../../src/shim/host/engine-host.js";
import type { HostAccess } from "../../src/shim/ports/host.js";
import type { PortForwardSession } from "../../src/shim/ports/streaming.js";
import { attach } from "../../src/shim/cri/container/attach.js";
import { exec } from "../../src/shim/cri/container/exec.js";
import { portForward } from "../../src/shim/cri/sandbox/port-forward.js";
import { AbandonedRequests } from "../../src/shim/recovery/abandoned-requests.js";
import { EngineLink } from "../../src/shim/state/engine-link.js";
import { ReadModel } from "../../src/shim/state/read-model.js";
import { StateSync } from "../../src/shim/state/state-sync.js";
import { FakeStreamingServer, TestClient } from "../fakes/fake-streaming.js";
import { recordingLog } from "../fakes/recording-log.js";
import { until } from "../support/wait.js";
import { endpoint, proofsOf } from "./engine-support.js";

export interface Sessions extends AsyncDisposable {
  exec(containerId: string, command: readonly string[], changes?: Partial<ExecRequest>): Promise<TestClient>;
  attach(containerId: string, changes?: Partial<AttachRequest>): Promise<TestClient>;
  portForward(sandboxId: string, port?: readonly number[]): Promise<PortForwardSession>;
  readonly engine: DockerEngine;
  readonly log: ReturnType<typeof recordingLog>;
}

/** Follows the engine beside the shim that makes the pods. `remote`: as if the engine's host were another. */
export async function openSessions(options: { readonly remote?: boolean } = {}): Promise<Sessions> {
  const log = recordingLog();
  const lifetime = new Lifetime(log);
  const engine = dockerEngine({ endpoint, shortTimeoutMs: 30_000 });
  const link = new EngineLink();
  const model = new ReadModel(() => undefined);
  const mode = options.remote === true ? "remote" : "auto";
  let host: HostAccess = unknownHost(mode);
  const sync = new StateSync({ engine, model, link, log });
  sync.subscribe({
    engineConnected: async (facts, signal) => {
      ({ host } = await EngineHost.connected(facts, { ...proofsOf(engine), mode, log }, signal));
    },
  });
  sync.start();
  await until("the read model is live", () => link.state.phase === "live");
  const streaming = new FakeStreamingServer();
  const podDialer = createPodDialer({ engine, link, host: () => host, programs: "", log }, lifetime);
  const abandonedRequests = new AbandonedRequests({ log, timeoutMs: 30_000 });
  const settings = {
    ...{ cleanUpTimeoutMs: 30_000, pullProgressDeadlineMs: 30_000, allPodAddresses: true },
    ...{ defaultUlimits: [], allowedAnnotations: [], oneContainerdShimPerPod: true },
    absentMountSourcesToReject: new Set<string>(),
  };
  const deps = {
    engine,
    state: { link, model, sync },
    node: { host: () => host },
    settings,
    streaming: { server: streaming, podDialer },
    abandonedRequests,
  } as unknown as Services;
  const call = (rpc: string): Call => ({ rpc, signal: AbortSignal.timeout(60_000), log });
  return {
    ...{ engine, log },
    exec: async (container_id, cmd, changes = {}) => {
      const streams = { tty: false, stdin: false, stdout: true, stderr: true };
      await sync.refresh(container_id, AbortSignal.timeout(30_000));
      const { url } = await exec({ container_id, cmd, ...streams, ...changes }, deps, call("Exec"));
      return new TestClient(streaming.command(url));
    },
    attach: async (container_id, changes = {}) => {
      const streams = { tty: false, stdin: false, stdout: true, stderr: true };
      await sync.refresh(container_id, AbortSignal.timeout(30_000));
      const { url } = await attach({ container_id, ...streams, ...changes }, deps, call("Attach"));
      return new TestClient(streaming.command(url));
    },
    portForward: async (pod_sandbox_id, port = []) => {
      await sync.refresh(pod_sandbox_id, AbortSignal.timeout(30_000));
      const { url } = await portForward({ pod_sandbox_id, port }, deps, call("PortForward"));
      return streaming.portForward(url);
    },
    [Symbol.asyncDispose]: async () => {
      await sync.stop();
      await abandonedRequests.stop();
      await lifetime.close();
      engine[Symbol.dispose]();
    },
  };
}
