/** Metrics of the present state of the program. */
import { ContainerState } from "../../domain/cri.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import type { PresentMetric, PresentValue } from "./present-metric.js";

/** What is read for the metrics; the parts of the program have these properties. */
export interface PresentState {
  readonly link: {
    readonly state: { readonly phase: (typeof phases)[number] };
    readonly facts: NodeFacts | undefined;
  };
  readonly model: {
    sandboxes(): Iterable<{ readonly ready: boolean }>;
    containers(): Iterable<{ readonly state: ContainerState }>;
    readonly unsynced: { readonly pending: number; readonly stale: number };
  };
  /** In milliseconds of `performance.now()`; undefined before the first comparison. */
  readonly sync: { readonly comparedAtMs: number | undefined };
  readonly network: Pick<NetworkPlugin, "name" | "notReadyReason">;
  readonly logs: {
    readonly counts: { readonly writing: Readonly<Record<string, number>>; readonly gaps: number };
  };
  readonly streaming: {
    readonly running: number;
    readonly offers: number;
    readonly connections: number;
  };
  readonly statsCounts: () => {
    readonly keptFiles: number;
    readonly unreadableContainers: number;
    readonly measuredLayers: number;
    readonly oldestLayerSeconds: number | undefined;
  };
  readonly corruptCheckpoints: () => number;
  /** Calls of the CRI that have no answer yet, without streams. */
  readonly callsUnderWay: () => readonly unknown[];
  /** Undefined while traces are off. */
  readonly spanCounts: () => { readonly exported: number; readonly dropped: number } | undefined;
}

const phases = ["live", "recovering", "lost"] as const;

const containerStates: readonly (readonly [word: string, state: ContainerState])[] = [
  ["created", ContainerState.CONTAINER_CREATED],
  ["running", ContainerState.CONTAINER_RUNNING],
  ["exited", ContainerState.CONTAINER_EXITED],
  ["unknown", ContainerState.CONTAINER_UNKNOWN],
];

export function presentMetrics(state: PresentState): readonly PresentMetric[] {
  return [...engineMetrics(state), ...podMetrics(state), ...workMetrics(state)];
}

function engineMetrics({ link, model, sync, network }: PresentState): readonly PresentMetric[] {
  return [
    {
      ...gauge("dockershim_engine_link", "1 for the state that the link to the Docker Engine is in"),
      labels: ["state"],
      read: () => phases.map((phase) => ({ labels: [phase], value: link.state.phase === phase ? 1 : 0 })),
    },
    {
      ...gauge("dockershim_engine_info", "1 while the Docker Engine is known; its version and API version"),
      labels: ["version", "api_version"],
      read: () => {
        const { facts } = link;
        if (facts === undefined) return [];
        return [{ labels: [facts.engineVersion, `1.${String(facts.apiMinor)}`], value: 1 }];
      },
    },
    {
      ...gauge(
        "dockershim_read_model_age_seconds",
        "Time since the sandboxes and containers in memory were compared with the list of the Docker Engine",
      ),
      read: () => one(sync.comparedAtMs && (performance.now() - sync.comparedAtMs) / 1000),
    },
    {
      ...gauge(
        "dockershim_read_model_unread",
        "Sandboxes and containers that the Docker Engine has listed and not described yet",
      ),
      read: () => one(model.unsynced.pending),
    },
    {
      ...gauge(
        "dockershim_read_model_stale",
        "Sandboxes and containers whose latest inspect is due or has failed",
      ),
      read: () => one(model.unsynced.stale),
    },
    {
      ...gauge("dockershim_network_plugin_ready", "1 while pods can get a network"),
      labels: ["plugin"],
      read: () => [{ labels: [network.name], value: network.notReadyReason() === undefined ? 1 : 0 }],
    },
  ];
}

function podMetrics({ model, corruptCheckpoints }: PresentState): readonly PresentMetric[] {
  return [
    {
      ...gauge("dockershim_sandboxes", "Pod sandboxes, by state"),
      labels: ["state"],
      read: () => {
        const sandboxes = [...model.sandboxes()];
        const ready = sandboxes.filter((sandbox) => sandbox.ready).length;
        const notReady = sandboxes.length - ready;
        return [
          { labels: ["ready"], value: ready },
          { labels: ["notready"], value: notReady },
        ];
      },
    },
    {
      ...gauge("dockershim_containers", "Containers of pods, by state"),
      labels: ["state"],
      read: () => {
        const containers = [...model.containers()];
        return containerStates.map(([word, wanted]) => ({
          labels: [word],
          value: containers.filter(({ state }) => state === wanted).length,
        }));
      },
    },
    {
      name: "dockershim_corrupt_checkpoints_total",
      help: "Checkpoints of sandboxes that could not be understood",
      type: "counter",
      read: () => one(corruptCheckpoints()),
    },
  ];
}

function workMetrics(state: PresentState): readonly PresentMetric[] {
  const { logs, streaming, statsCounts, spanCounts, callsUnderWay } = state;
  return [
    {
      ...gauge("dockershim_cri_requests_under_way", "Calls of the CRI that have not been answered yet"),
      read: () => one(callsUnderWay().length),
    },
    {
      ...gauge(
        "dockershim_container_logs",
        "Container logs that are being written, by what they are read from",
      ),
      labels: ["source"],
      read: () => Object.entries(logs.counts.writing).map(([source, value]) => ({ labels: [source], value })),
    },
    {
      ...gauge(
        "dockershim_container_log_gaps",
        "Places in the logs of the present containers where lines were lost before they could be read",
      ),
      read: () => one(logs.counts.gaps),
    },
    {
      ...gauge(
        "dockershim_stats_kept_files",
        "Files of cgroups and processes that are kept open for the next statistics",
      ),
      read: () => one(statsCounts().keptFiles),
    },
    {
      ...gauge("dockershim_stats_unreadable_containers", "Containers whose statistics could not be read"),
      read: () => one(statsCounts().unreadableContainers),
    },
    {
      ...gauge("dockershim_writable_layers_measured", "Running containers whose writable layer was measured"),
      read: () => one(statsCounts().measuredLayers),
    },
    {
      ...gauge(
        "dockershim_writable_layers_oldest_seconds",
        "Time since the measurement that is the oldest of those",
      ),
      read: () => one(statsCounts().oldestLayerSeconds),
    },
    {
      ...gauge("dockershim_streaming_sessions", "Sessions of exec, attach and port-forward that run"),
      read: () => one(streaming.running),
    },
    {
      ...gauge("dockershim_streaming_offers", "URLs of sessions that wait for their client"),
      read: () => one(streaming.offers),
    },
    {
      ...gauge("dockershim_streaming_connections", "Connections of clients to the streaming server"),
      read: () => one(streaming.connections),
    },
    {
      name: "dockershim_otlp_spans_exported_total",
      help: "Spans that the OTLP receiver has taken",
      type: "counter",
      read: () => one(spanCounts()?.exported),
    },
    {
      name: "dockershim_otlp_spans_dropped_total",
      help: "Spans that the OTLP receiver has not taken, or too many of which waited for it",
      type: "counter",
      read: () => one(spanCounts()?.dropped),
    },
  ];
}

function gauge(name: string, help: string): Pick<PresentMetric, "name" | "help" | "type"> {
  return { name, help, type: "gauge" };
}

function one(value: number | undefined): readonly PresentValue[] {
  return value === undefined ? [] : [{ value }];
}
