/** Lists and statuses against the engine calls that answer the same question. */
import { docker } from "../test/support/docker.js";
import type { EngineProxy } from "../test/support/engine-proxy.js";
import { connectBytes, nestedMessage, stringMessage, type BytesClient } from "./cri-bytes.js";
import { race, withTimesAlone, type Contender } from "./measure.js";
import type { Comparison } from "./report.js";

/** A pod that runs, and what it consists of. */
export interface Subject {
  readonly sandboxId: string;
  readonly containerId: string;
  readonly image: string;
}

/** A kind of read, and the engine calls that it stands for. */
export interface Read {
  readonly title: string;
  readonly rawCalls: string;
  readonly call: (client: BytesClient) => Promise<unknown>;
  readonly raw: () => Promise<unknown>;
}

const defaultWarmUpRounds = 300;
const countedCalls = 50;

export function plainReads({ sandboxId, containerId, image }: Subject): readonly Read[] {
  const list = (type: string): Promise<unknown> => {
    const filters = encodeURIComponent(JSON.stringify({ label: [`io.kubernetes.docker.type=${type}`] }));
    return docker("GET", `/containers/json?all=1&filters=${filters}`);
  };
  return [
    {
      title: "ListPodSandbox + ListContainers",
      rawCalls: "two lists",
      call: async (client) => {
        await client.call("RuntimeService", "ListPodSandbox");
        await client.call("RuntimeService", "ListContainers");
      },
      raw: async () => {
        await list("podsandbox");
        await list("container");
      },
    },
    {
      title: "PodSandboxStatus",
      rawCalls: "inspect",
      call: (client) => client.call("RuntimeService", "PodSandboxStatus", stringMessage(1, sandboxId)),
      raw: () => docker("GET", `/containers/${sandboxId}/json`),
    },
    {
      title: "ContainerStatus",
      rawCalls: "inspect",
      call: (client) => client.call("RuntimeService", "ContainerStatus", stringMessage(1, containerId)),
      raw: () => docker("GET", `/containers/${containerId}/json`),
    },
    {
      title: "Status",
      rawCalls: "ping",
      call: (client) => client.call("RuntimeService", "Status"),
      raw: () => docker("GET", "/_ping"),
    },
    {
      title: "ListImages",
      rawCalls: "list",
      call: (client) => client.call("ImageService", "ListImages"),
      raw: () => docker("GET", "/images/json"),
    },
    {
      title: "ImageStatus",
      rawCalls: "inspect",
      call: (client) => client.call("ImageService", "ImageStatus", nestedMessage(1, stringMessage(1, image))),
      raw: () => docker("GET", `/images/${image}/json`),
    },
  ];
}

/** Of all pods. */
export const statisticsReads: readonly Pick<Read, "title" | "call">[] = [
  "ListContainerStats",
  "ListPodSandboxStats",
].map((rpc) => ({ title: rpc, call: (client) => client.call("RuntimeService", rpc) }));

/** `counted` is the socket of a shim behind `proxy`, whose engine requests are counted apart from the timing. */
export async function compareReads(
  reads: readonly Read[],
  contenders: readonly { readonly name: string; readonly socket: string }[],
  counted: { readonly socket: string; readonly proxy: EngineProxy },
  rounds: number,
  warmUpRounds = defaultWarmUpRounds,
): Promise<readonly Comparison[]> {
  const clients = contenders.map(({ name, socket }) => ({ name, client: connectBytes(socket) }));
  using counter = connectBytes(counted.socket);
  try {
    const comparisons: Comparison[] = [];
    for (const { title, rawCalls, call, raw } of reads) {
      const racing = [
        ...clients.map(({ name, client }): Contender => ({ name, run: () => call(client) })),
        { name: "raw", run: raw },
      ];
      const raced = await race(racing, rounds, warmUpRounds);
      const timings = await withTimesAlone(racing, raced, rounds);
      counted.proxy.forget();
      for (let index = 0; index < countedCalls; index += 1) await call(counter);
      const engineRequests = counted.proxy.requests.length / countedCalls;
      comparisons.push({ title, rawCalls, timings, engineRequests });
    }
    return comparisons;
  } finally {
    for (const { client } of clients) client[Symbol.dispose]();
  }
}
