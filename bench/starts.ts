/** Pod start and container start against the engine calls that they need. */
import {
  createContainer,
  docker,
  inspectContainer,
  removeContainer,
  startContainer,
} from "../test/support/docker.js";
import type { CriClient } from "../test/support/cri-client.js";
import type { EngineProxy } from "../test/support/engine-proxy.js";
import type { TestBed } from "../test/support/test-bed.js";
import { race, type Contender } from "./measure.js";
import type { Comparison } from "./report.js";

export interface CriContender {
  readonly name: string;
  readonly cri: CriClient;
}

/** Create bodies as the shim sends them. */
export interface Bodies {
  readonly sandbox: object;
  readonly container: object;
}

const warmUpRounds = 3;

/** Runs one pod through a shim behind `proxy` and reads from the proxy what it sent. */
export async function recordBodies(bed: TestBed, proxy: EngineProxy, cri: CriClient): Promise<Bodies> {
  await using pod = await bed.runPod(cri);
  const sandbox = lastCreate(proxy);
  await pod.start(containerSettings);
  return { sandbox, container: lastCreate(proxy) };
}

function lastCreate(proxy: EngineProxy): object {
  const create = proxy.requests.findLast(({ path }) => path.startsWith("/containers/create?name=k8s_"));
  if (create === undefined) throw new Error("no container was created");
  return JSON.parse(Buffer.concat(create.body).toString()) as object;
}

const containerSettings = { command: ["sleep", "100000"] };

export async function comparePodStarts(
  bed: TestBed,
  cri: CriClient,
  { sandbox }: Bodies,
  rounds: number,
): Promise<Comparison> {
  const own: Contender = {
    name: "dockershim",
    run: async () => (await cri.RunPodSandbox({ config: bed.podConfig() })).pod_sandbox_id,
    after: async (id) => {
      await cri.StopPodSandbox({ pod_sandbox_id: String(id) });
      await cri.RemovePodSandbox({ pod_sandbox_id: String(id) });
    },
  };
  const timings = await race([own, rawStart(bed, sandbox)], rounds, warmUpRounds);
  return { title: "RunPodSandbox", rawCalls: "create, start, inspect", timings };
}

export async function compareContainerStarts(
  bed: TestBed,
  cri: CriClient,
  { container }: Bodies,
  rounds: number,
): Promise<Comparison> {
  await using pod = await bed.runPod(cri);
  const joined = `container:${pod.id}`;
  const { HostConfig } = container as { HostConfig: object };
  const body = { ...container, HostConfig: { ...HostConfig, NetworkMode: joined, IpcMode: joined } };
  const own: Contender = {
    name: "dockershim",
    run: async () => pod.start({ ...containerSettings, metadata: { name: bed.newName("c") } }),
    after: async (id) => {
      await cri.RemoveContainer({ container_id: String(id) });
    },
  };
  const timings = await race([own, rawStart(bed, body)], rounds, warmUpRounds);
  return { title: "CreateContainer + StartContainer", rawCalls: "create, start, inspect", timings };
}

/** The same body, but no shim takes it for its own: its label of the type has another name. */
function rawStart(bed: TestBed, body: object): Contender {
  const { Labels } = body as { Labels: Readonly<Record<string, string>> };
  const labels = Object.entries(Labels).map(([key, value]) => [
    key.replace("docker.type", "docker.typo"),
    value,
  ]);
  const own = { ...body, Labels: Object.fromEntries(labels) as object };
  return {
    name: "raw",
    run: async () => {
      const id = await createContainer(`k8s_raw_${bed.newName()}`, own);
      await startContainer(id);
      await inspectContainer(id);
      return id;
    },
    after: async (id) => {
      await docker("POST", `/containers/${String(id)}/stop?t=0`);
      await removeContainer(String(id));
    },
  };
}
