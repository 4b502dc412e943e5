/** The flags of `npm run bench`. */
import { parseArgs } from "node:util";

export interface BenchOptions {
  /** Running pods, with one container each, for the reads. */
  readonly pods: number;
  /** Pod and container starts per contender. */
  readonly starts: number;
  /** Calls per contender and kind of read. */
  readonly reads: number;
  /** Sockets of other CRI servers on the same engine, to be compared with. */
  readonly others: readonly string[];
  readonly json: boolean;
  /** Only the time that pod networks take, and no engine. */
  readonly networks: boolean;
  /** Directory for CPU profiles of the shim, one of its starts and one of its reads. */
  readonly profile: string | undefined;
}

export const usage = `npm run bench -- [flags]
  --pods N          running pods, with one container each, for lists and statuses (default 100)
  --starts N        pod and container starts per contender (default 30)
  --reads N         calls per contender and kind of read (default 300)
  --cri ENDPOINT    another CRI server on the same engine, unix:///path; may be repeated
  --networks        only how much of the time of pod networks is their plugins'; needs no engine
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
      cri: { type: "string", multiple: true, default: [] },
      json: { type: "boolean", default: false },
      networks: { type: "boolean", default: false },
      profile: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  return {
    pods: count("--pods", values.pods),
    starts: count("--starts", values.starts),
    reads: count("--reads", values.reads),
    others: values.cri.map((endpoint) => endpoint.replace(/^unix:\/\//, "")),
    json: values.json,
    networks: values.networks,
    profile: values.profile,
  };
}

function count(flag: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`flag ${flag}: "${text}" is no count`);
  return value;
}
