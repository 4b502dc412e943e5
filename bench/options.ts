/** The flags of `npm run bench`. */
import { parseArgs } from "node:util";
import type { LogOptions } from "./logs.js";

export interface BenchOptions {
  /** Running pods, with one container each, for the reads. */
  readonly pods: number;
  /** Pod and container starts per contender. */
  readonly starts: number;
  /** Bursts of pods, and of execs, per server. */
  readonly bursts: number;
  /** Calls per contender and kind of read. */
  readonly reads: number;
  /** Sockets of other CRI servers on the same engine, to be compared with. */
  readonly others: readonly string[];
  /** Whether those, too, are stopped while another server is measured. */
  readonly suspend: boolean;
  readonly json: boolean;
  /** Only the time that pod networks take, and no engine. */
  readonly networks: boolean;
  /** Only the speed of the SPDY layer, and no engine. */
  readonly streamingFrames: boolean;
  /** Only statistics and metrics. */
  readonly stats: boolean;
  /** Only what log files cost. */
  readonly logs: LogOptions | undefined;
  /** Only exec and port-forward. */
  readonly streaming: boolean;
  /** What is carried in each direction and round, for exec and port-forward. */
  readonly mebibytes: number;
  /** Directory for CPU profiles of the shim, one of its starts and one of its reads. */
  readonly profile: string | undefined;
  /** Only what the shim does while nothing happens, measured for `seconds`. */
  readonly idle: boolean;
  readonly seconds: number;
  /** Only memory while so many pods come and go. */
  readonly churn: number | undefined;
  /** Only lists with so many containers, and no engine. */
  readonly containers: number | undefined;
  /** Only what `play` adds to the calls of the CRI. */
  readonly play: boolean;
  /** Of the shim. */
  readonly flags: readonly string[];
}

export const usage = `npm run bench -- [flags]
  --pods N          running pods, with one container each, for lists and statuses (default 100)
  --starts N        pod and container starts per contender (default 30)
  --reads N         calls per contender and kind of read (default 300)
  --cri ENDPOINT    another CRI server on the same engine, unix:///path: every call of a pod's life, bursts, execs, reads,
                    CPU times and memory, with ratios, instead of raw engine calls; may be repeated
  --bursts N        with --cri: bursts of 20 pods, and of 100 execs, per server (default 5)
  --suspend         with --cri: stops (SIGSTOP) the other server, too, while the shim is measured; for servers that follow
                    the engine's events, and that serve no kubelet
  --networks        only how much of the time of pod networks is their plugins'; needs no engine
  --streaming       only exec and port-forward, against the engine's exec and a connection to the pod's address
  --mebibytes N     what --streaming carries in each direction and round (default 128)
  --streaming-frames  only the speed of the SPDY layer against a bare connection; needs no engine
  --stats           only statistics and metrics
  --logs            only what log files cost, against nobody reading and docker logs -f; the engine must be on this host
  --megabytes N     output of each flood with --logs (default 300), --rounds N times (default 3)
  --trickles N      containers with a line each second, and --silent N silent ones (default 200 and 100)
  --idle            only what the shim does while nothing happens, for --seconds N (default 60), with --pods N
  --churn N         only memory while N pods come and go beside --pods N that stay, and how soon a start is ready
  --containers N    only lists and statuses with N containers of a stand-in engine; needs no engine
  --play            only what play adds to the calls of the CRI, with --starts N rounds
  --flag=FLAG       of the shim, not with --logs; may be repeated
  --json            JSON instead of a table
  --profile DIR     writes CPU profiles of the shim
The engine is that of DOCKERSHIM_TEST_DOCKER_ENDPOINT, else unix:///var/run/docker.sock.
`;

/** Undefined for --help. Throws for flags that are none. */
export function parseOptions(argv: readonly string[]): BenchOptions | undefined {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      pods: { type: "string", default: "100" },
      starts: { type: "string", default: "30" },
      reads: { type: "string", default: "300" },
      bursts: { type: "string", default: "5" },
      suspend: { type: "boolean", default: false },
      cri: { type: "string", multiple: true, default: [] },
      json: { type: "boolean", default: false },
      streaming: { type: "boolean", default: false },
      mebibytes: { type: "string", default: "128" },
      "streaming-frames": { type: "boolean", default: false },
      networks: { type: "boolean", default: false },
      stats: { type: "boolean", default: false },
      logs: { type: "boolean", default: false },
      megabytes: { type: "string", default: "300" },
      rounds: { type: "string", default: "3" },
      trickles: { type: "string", default: "200" },
      silent: { type: "string", default: "100" },
      idle: { type: "boolean", default: false },
      seconds: { type: "string", default: "60" },
      churn: { type: "string" },
      containers: { type: "string" },
      play: { type: "boolean", default: false },
      flag: { type: "string", multiple: true, default: [] },
      profile: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  return {
    pods: count("--pods", values.pods),
    starts: count("--starts", values.starts),
    bursts: count("--bursts", values.bursts),
    reads: count("--reads", values.reads),
    others: values.cri.map((endpoint) => endpoint.replace(/^unix:\/\//, "")),
    suspend: values.suspend,
    json: values.json,
    networks: values.networks,
    streaming: values.streaming,
    mebibytes: count("--mebibytes", values.mebibytes),
    streamingFrames: values["streaming-frames"],
    stats: values.stats,
    logs: values.logs
      ? {
          megabytes: count("--megabytes", values.megabytes),
          rounds: count("--rounds", values.rounds),
          trickles: count("--trickles", values.trickles),
          idle: count("--silent", values.silent),
        }
      : undefined,
    profile: values.profile,
    idle: values.idle,
    seconds: count("--seconds", values.seconds),
    churn: values.churn === undefined ? undefined : count("--churn", values.churn),
    containers: values.containers === undefined ? undefined : count("--containers", values.containers),
    play: values.play,
    flags: values.flag,
  };
}

function count(flag: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`flag ${flag}: "${text}" is no count`);
  return value;
}
