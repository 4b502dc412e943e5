/** The flags of `npm run bench`. */
import { parseArgs } from "node:util";

/** As `usage` tells them. */
export type BenchOptions = NonNullable<ReturnType<typeof parseOptions>>;

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
  --stats           only statistics and metrics
  --logs            only what log files cost, against nobody reading and docker logs -f; the engine must be on this host
  --megabytes N     output of each flood with --logs (default 300), --rounds N times (default 3)
  --trickles N      containers with a line each second, and --silent N silent ones (default 200 and 100)
  --idle            only what the shim does while nothing happens, for --seconds N (default 60), with --pods N
  --churn N         only what the shim holds while N pods come and go beside --pods N that stay, and how soon a start is ready
  --faults          with --churn: kills the shim, runs --restart-engine COMMAND (which is to kill it), fills the disk of the
                    state directory, and has the network plugin fail and hang
  --kills N         only how soon a server that was killed N times serves again with --pods N, and its logs are complete; also
                    for commands of --program
  --full-node N     only a node that each server fills with N pods of two containers by itself, reads and empties; beside
                    each --cri; --restart-engine COMMAND is run while the pods are there
  --containers N    only lists and statuses with N containers of a stand-in engine; needs no engine
  --play            only what play adds to the calls of the CRI, with --starts N rounds
  --program CMD     only size, start, memory and CPU of a command that serves, as "node dist/launch.cjs" or an executable, in
                    --rounds N; may be repeated
  --flag=FLAG       of the shim, not with --logs; may be repeated
  --json            JSON instead of a table
  --profile DIR     writes CPU profiles of the shim
The engine is that of DOCKERSHIM_TEST_DOCKER_ENDPOINT, else unix:///var/run/docker.sock.
`;

/** Undefined for --help. Throws for flags that are none. */
export function parseOptions(argv: readonly string[]) {
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
      faults: { type: "boolean", default: false },
      "full-node": { type: "string" },
      kills: { type: "string" },
      "restart-engine": { type: "string" },
      containers: { type: "string" },
      play: { type: "boolean", default: false },
      program: { type: "string", multiple: true, default: [] },
      flag: { type: "string", multiple: true, default: [] },
      profile: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  const { cri, flag, logs, ...rest } = values;
  const counted = (name: "churn" | "containers" | "full-node" | "kills"): number | undefined =>
    values[name] === undefined ? undefined : count(`--${name}`, values[name]);
  return {
    ...rest,
    pods: count("--pods", values.pods),
    starts: count("--starts", values.starts),
    bursts: count("--bursts", values.bursts),
    reads: count("--reads", values.reads),
    others: cri.map((endpoint) => endpoint.replace(/^unix:\/\//, "")),
    mebibytes: count("--mebibytes", values.mebibytes),
    logs: logs
      ? {
          megabytes: count("--megabytes", values.megabytes),
          rounds: count("--rounds", values.rounds),
          trickles: count("--trickles", values.trickles),
          idle: count("--silent", values.silent),
        }
      : undefined,
    programs: values.program,
    rounds: count("--rounds", values.rounds),
    seconds: count("--seconds", values.seconds),
    churn: counted("churn"),
    fullNode: counted("full-node"),
    kills: counted("kills"),
    restartEngine: values["restart-engine"],
    containers: counted("containers"),
    profile: values.profile,
    flags: flag,
  };
}

function count(flag: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`flag ${flag}: "${text}" is no count`);
  return value;
}
