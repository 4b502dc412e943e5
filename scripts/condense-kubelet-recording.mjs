#!/usr/bin/env node
/**
 * Condenses a recording of `dockershim record` below a kubelet to the calls of its SyncPod, by pod:
 * `node scripts/condense-kubelet-recording.mjs RECORDING > test/golden/kubelet-sequences/sequences.json`.
 * Ids, times and addresses go; RPC, container, attempt and the fields that tell the kubelet's decision stay.
 */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error("name a recording");
/** @type {Map<string, string>} sandbox to pod */
const pods = new Map();
/** @type {Map<string, { pod: string, name: string }>} */
const containers = new Map();
/** @type {Record<string, string[]>} */
const sequences = {};
const lines = createInterface({ input: createReadStream(path) });
for await (const line of lines) {
  const { rpc, request, response, error } = JSON.parse(line);
  const [pod, text] = describe(rpc, request, response) ?? [];
  if (pod === undefined || text === undefined) continue;
  (sequences[pod] ??= []).push(error === undefined ? text : `${text}: failed`);
}
process.stdout.write(`${JSON.stringify(sequences, undefined, 2)}\n`);

/** @returns {[string, string] | undefined} */
function describe(rpc, request = {}, response = {}) {
  switch (rpc) {
    case "RunPodSandbox": {
      const { name, attempt = 0 } = request.config.metadata;
      const pod = name.replace(/-lab$/, "");
      if (response.pod_sandbox_id !== undefined) pods.set(response.pod_sandbox_id, pod);
      return [pod, `RunPodSandbox ${attempt}`];
    }
    case "StopPodSandbox":
    case "RemovePodSandbox":
      return [pods.get(request.pod_sandbox_id), rpc];
    case "PullImage":
      return [podOf(request.sandbox_config), `PullImage ${request.image.image}`];
    case "CreateContainer": {
      const { name, attempt = 0 } = request.config.metadata;
      const pod = podOf(request.sandbox_config);
      if (response.container_id !== undefined)
        containers.set(response.container_id, { pod, name: `${name} ${attempt}` });
      const signal = request.config.stop_signal ? ` stop_signal=${request.config.stop_signal}` : "";
      return [pod, `CreateContainer ${name} ${attempt} log=${request.config.log_path}${signal}`];
    }
    case "StartContainer":
    case "RemoveContainer":
    case "StopContainer": {
      const { pod, name } = containers.get(request.container_id) ?? {};
      const grace = rpc === "StopContainer" ? ` ${request.timeout ?? 0}s` : "";
      return [pod, `${rpc} ${name}${grace}`];
    }
    case "ExecSync": {
      const { pod, name } = containers.get(request.container_id) ?? {};
      return [pod, `ExecSync ${name} ${request.cmd.join(" ")}`];
    }
    default:
      return undefined;
  }
}

function podOf(config) {
  return config.metadata.name.replace(/-lab$/, "");
}
