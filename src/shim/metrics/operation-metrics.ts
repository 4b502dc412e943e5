/** Counters and histograms of what was done. */
import type { Engine } from "../ports/engine.js";
import type {
  EngineCallEnded,
  NetworkOperationEnded,
  Observer,
  PluginRunEnded,
  RpcEnded,
  UnknownFieldSeen,
} from "../ports/observer.js";
import type * as prometheusClient from "./prom-client.js";
import type { Registry } from "./prom-client.js";

type PromClient = typeof prometheusClient;

/** Boundaries of dockershim's histograms: its dashboards and alerts stay right. */
const dockershimBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Answers from memory take less than a millisecond, pulls minutes. */
const rpcBuckets = [0.0005, 0.001, 0.0025, ...dockershimBuckets, 30, 60, 120, 300];

/** Subscriptions: they last until the client leaves, which says nothing about speed. */
const openEndedRpcs: ReadonlySet<string> = new Set(["GetContainerEvents"]);
const openEndedVerbs: ReadonlySet<keyof Engine> = new Set(["events"]);

const networkOperations: Readonly<Record<NetworkOperationEnded["operation"], string>> = {
  setUpPod: "set_up_pod",
  tearDownPod: "tear_down_pod",
  podAddresses: "get_pod_network_status",
};

const rpcs = "dockershim_cri_requests";
const docker = "kubelet_docker_operations";
const network = "kubelet_network_plugin_operations";
const plugins = "dockershim_cni_plugin_runs";

/** The observer whose counts are in `registry`. */
export function createOperationMetrics(prometheus: PromClient, registry: Registry): Observer {
  const counter = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
  ): InstanceType<typeof prometheus.Counter<Label>> =>
    new prometheus.Counter({ name, help, labelNames, registers: [registry] });
  const histogram = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    buckets: readonly number[] = dockershimBuckets,
  ): InstanceType<typeof prometheus.Histogram<Label>> =>
    new prometheus.Histogram({ name, help, labelNames, buckets: [...buckets], registers: [registry] });

  const rpcTotal = counter(`${rpcs}_total`, "Calls of the CRI that were answered", ["rpc", "code"]);
  const rpcSeconds = histogram(
    `${rpcs}_duration_seconds`,
    "Time until a call of the CRI was answered; without GetContainerEvents",
    ["rpc"],
    rpcBuckets,
  );
  const operation = ["operation_type"] as const;
  const dockerTotal = counter(`${docker}_total`, "Calls of the Docker Engine", operation);
  const dockerErrors = counter(
    `${docker}_errors_total`,
    "Calls of the Docker Engine that failed, timeouts included",
    operation,
  );
  const dockerTimeouts = counter(
    `${docker}_timeout_total`,
    "Calls of the Docker Engine that took too long",
    operation,
  );
  const dockerSeconds = histogram(
    `${docker}_duration_seconds`,
    "Time that calls of the Docker Engine took; without events",
    operation,
  );
  const networkTotal = counter(`${network}_total`, "Operations of the network plugin", operation);
  const networkErrors = counter(
    `${network}_errors_total`,
    "Operations of the network plugin that failed",
    operation,
  );
  const networkSeconds = histogram(
    `${network}_duration_seconds`,
    "Time that operations of the network plugin took, with the wait for other work on the same pod",
    operation,
  );
  const run = ["plugin", "command"] as const;
  const pluginTotal = counter(`${plugins}_total`, "Runs of CNI plugins", run);
  const pluginErrors = counter(`${plugins}_errors_total`, "Runs of CNI plugins that failed", run);
  const pluginSeconds = histogram(`${plugins}_duration_seconds`, "Time that runs of CNI plugins took", run);
  const unknownFields = counter(
    "dockershim_cri_unknown_fields_total",
    "Requests of the CRI with a field that this version does not know",
    ["rpc", "message", "field"],
  );

  return {
    unknownFieldSeen({ rpc, message, field }: UnknownFieldSeen): void {
      unknownFields.inc({ rpc, message, field });
    },
    rpcEnded({ rpc, code, ms }: RpcEnded): void {
      rpcTotal.inc({ rpc, code });
      if (!openEndedRpcs.has(rpc)) rpcSeconds.observe({ rpc }, ms / 1000);
    },
    engineCallEnded({ verb, ms, kind }: EngineCallEnded): void {
      const labels = { operation_type: operationType(verb) };
      dockerTotal.inc(labels);
      if (kind !== undefined) dockerErrors.inc(labels);
      if (kind === "timeout") dockerTimeouts.inc(labels);
      if (!openEndedVerbs.has(verb)) dockerSeconds.observe(labels, ms / 1000);
    },
    networkOperationEnded({ operation: what, ms, failed }: NetworkOperationEnded): void {
      const labels = { operation_type: networkOperations[what] };
      networkTotal.inc(labels);
      if (failed) networkErrors.inc(labels);
      networkSeconds.observe(labels, ms / 1000);
    },
    pluginRunEnded({ type, command, durationMs, failed }: PluginRunEnded): void {
      const labels = { plugin: type, command };
      pluginTotal.inc(labels);
      if (failed) pluginErrors.inc(labels);
      pluginSeconds.observe(labels, durationMs / 1000);
    },
  };
}

/** Where dockershim's word for an engine call is not the name of our verb. */
const dockershimOperations: Readonly<Partial<Record<keyof Engine, string>>> = {
  connect: "info",
  containerStats: "stats",
  containerLogs: "logs",
  attachContainer: "attach",
  writableLayerBytes: "inspect_container_withsize",
  imageDiskUsage: "disk_usage",
};

/** `inspectContainer` is `inspect_container`, as dockershim wrote it. */
/** The label of an engine call. */
export function operationType(verb: keyof Engine): string {
  return dockershimOperations[verb] ?? verb.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
