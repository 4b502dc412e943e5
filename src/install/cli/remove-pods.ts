/** How `wipe` removes pods: as the server does it, with its plugins, records and checkpoints. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ProcessIo } from "../../cli/process-io.js";
import { connectCri } from "../../client/cri-connection.js";
import { orAbort, withDeadline } from "../../lib/abort.js";
import { silentLogger } from "../../lib/log.js";
import { startShim } from "../../shim/app/start-shim.js";
import type { Config } from "../../shim/config/resolve.js";
import type { Step } from "../steps.js";
import type { FoundPods, PodToWipe } from "./wipe-pods.js";

const connectTimeoutMs = 60_000;
/** Of a call for one pod: a network plugin may take 220 s, twice. */
const podTimeoutMs = 600_000;

/** By a server of its own, which undoes what any server of this program, dockershim or cri-dockerd has made of a pod. */
export async function removePods(
  { pods, orphans }: FoundPods,
  io: Pick<ProcessIo, "environment" | "version" | "signal">,
  config: Config,
  attempt: (step: Step) => Promise<void>,
): Promise<void> {
  const { signal } = io;
  const directory = await mkdtemp(join(tmpdir(), "dockershim-wipe-"));
  const path = join(directory, "cri.sock");
  // A container that it makes for statuses could outlive it.
  const purpose = { preparesStatuses: false };
  const shim = await startShim(ownConfig(config, path), silentLogger(), io, purpose).catch(
    async (error: unknown) => {
      await rm(directory, { recursive: true, force: true });
      throw error;
    },
  );
  const client = connectCri(path);
  try {
    await withDeadline(signal, connectTimeoutMs, "wait for the engine", (own) =>
      orAbort(Promise.race([shim.firstLive, shim.failed]), own),
    );
    const call = { signal, timeoutMs: podTimeoutMs };
    for (const pod of pods) {
      const id = { pod_sandbox_id: pod.id };
      const run = async (): Promise<void> => {
        await client.call("StopPodSandbox", id, call);
        // Before the pod: a next try knows no more where its logs are.
        await removeLogs(pod);
        await client.call("RemovePodSandbox", id, call);
      };
      await attempt({ text: pod.text, run });
    }
    for (const { id, text } of orphans) {
      const run = (): Promise<unknown> => client.call("RemoveContainer", { container_id: id }, call);
      await attempt({ text, run });
    }
  } finally {
    client.close();
    await shim.stop(0);
    await rm(directory, { recursive: true, force: true });
  }
}

/** The server of the node, on another socket, and with nothing else open. */
function ownConfig(config: Config, path: string): Config {
  return {
    ...config,
    containerRuntimeEndpoint: { kind: "unix", path },
    cadvisorSocket: undefined,
    cadvisorSocketRequired: false,
    metricsBindAddress: undefined,
    metricsContainers: false,
    metricsPage: false,
    streamingBindAddress: { host: "127.0.0.1", port: 0 },
    // Each pod is released by the plugin that made its network; kubenet would write its rules again.
    networkPlugin: config.networkPlugin === "kubenet" ? "cni" : config.networkPlugin,
  };
}

async function removeLogs({ logDirectories }: PodToWipe): Promise<void> {
  for (const directory of logDirectories) await rm(directory, { recursive: true, force: true });
}
