/**
 * Answers about the pods of a node as dockershim 1.20 and cri-dockerd 0.4.3 did: the recorded answers, with ids,
 * times, addresses and names of the node. All other RPCs are UNIMPLEMENTED.
 */
import assert from "node:assert/strict";
import { Server, ServerCredentials, type UntypedHandleCall } from "@grpc/grpc-js";
import { criMethods } from "../../src/client/cri-messages.js";
import { dockerJson } from "./docker.js";
import type { NodePod } from "./migration-node.js";
import { type LegacyProgram, legacyAnswers } from "./recorded-pods.js";

interface Inspected {
  readonly Id: string;
  readonly Created: string;
  readonly Image: string;
  readonly State: { readonly StartedAt: string };
  readonly Config: { readonly Image: string; readonly Labels: Readonly<Record<string, string>> };
  readonly Mounts: readonly {
    readonly Source: string;
    readonly Destination: string;
    readonly RW: boolean;
    readonly Propagation: string;
  }[];
}
type Message = Readonly<Record<string, unknown>>;

export async function startLegacyServer(
  socket: string,
  maker: LegacyProgram,
  pods: readonly NodePod[],
): Promise<AsyncDisposable> {
  const version = maker === "dockershim" ? "v1alpha2" : "v1";
  const answers: Readonly<Record<string, (request: Message) => Promise<object>>> = {
    Version: async () => {
      const { Version, ApiVersion } = (await dockerJson("GET", "/version")) as Record<string, string>;
      const own = maker === "dockershim" ? { runtime_api_version: `${ApiVersion}.0` } : {};
      return { ...recorded(maker, "Version"), ...own, runtime_version: Version };
    },
    Status: () => Promise.resolve(recorded(maker, "Status")),
    ListPodSandbox: async () => ({
      items: await Promise.all(
        pods.map(async (pod) => {
          const { created_at, labels, metadata } = await ofSandbox(pod);
          const [item] = recorded(maker, "ListPodSandbox")["items"] as Message[];
          return { ...item, ...{ id: pod.id, created_at: wholeSeconds(created_at), labels, metadata } };
        }),
      ),
    }),
    PodSandboxStatus: async ({ pod_sandbox_id }) => {
      const pod = pods.find(({ id }) => id === pod_sandbox_id);
      assert.ok(pod, "a pod of another node is asked for");
      const { status } = recorded(maker, pod.isHost ? "PodSandboxStatus host network" : "PodSandboxStatus");
      return { status: { ...(status as Message), ...(await ofSandbox(pod)), network: { ip: pod.address } } };
    },
    ListContainers: async () => ({
      containers: await Promise.all(
        pods.flatMap((pod) =>
          pod.containers.map(async (id) => {
            const { Created, Image, Config } = await inspect(id);
            const [container = {}] = recorded(maker, "ListContainers")["containers"] as Message[];
            return {
              ...container,
              ...{ id, pod_sandbox_id: pod.id, created_at: wholeSeconds(nanoseconds(Created)) },
              ...{ image: { image: Config.Image }, image_ref: Image },
              labels: labelsOf(Config.Labels, container),
            };
          }),
        ),
      ),
    }),
    ContainerStatus: async ({ container_id }) => {
      const { Id, Created, Image, State, Config, Mounts } = await inspect(String(container_id));
      const status = recorded(maker, "ContainerStatus")["status"] as Message;
      return {
        status: {
          ...status,
          ...{ id: Id, created_at: nanoseconds(Created), started_at: nanoseconds(State.StartedAt) },
          // Both name the id where no registry has the image.
          ...{ image: { image: Config.Image }, image_ref: `docker://${Image}` },
          labels: labelsOf(Config.Labels, status),
          mounts: Mounts.map(({ Source, Destination, RW }) => ({
            ...{ host_path: Source, container_path: Destination, readonly: !RW },
          })),
          log_path: Config.Labels["io.kubernetes.container.logpath"] ?? "",
        },
      };
    },
  };
  const server = new Server();
  for (const [rpc, answer] of Object.entries(answers)) {
    const method = criMethods().get(rpc);
    assert.ok(method);
    const handle: UntypedHandleCall = (
      { request }: { readonly request: Message },
      done: (error: object | null, answered?: object) => void,
    ) => {
      answer(request).then(
        (answered) => done(null, answered),
        (error: unknown) => done({ code: 2, details: String(error) }),
      );
    };
    const path = method.path.replace("/runtime.v1.", `/runtime.${version}.`);
    server.register(path, handle, method.responseSerialize, method.requestDeserialize, "unary");
  }
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
  return {
    [Symbol.asyncDispose]: () => {
      server.forceShutdown();
      return Promise.resolve();
    },
  };
}

function recorded(maker: LegacyProgram, name: string): Message {
  return legacyAnswers[maker][name] as Message;
}

async function inspect(id: string): Promise<Inspected> {
  return (await dockerJson("GET", `/containers/${id}/json`)) as Inspected;
}

async function ofSandbox({ id, name, uid }: NodePod) {
  const { Created, Config } = await inspect(id);
  return {
    id,
    created_at: nanoseconds(Created),
    metadata: { name, uid, namespace: "default", attempt: 2 },
    labels: labelsOf(Config.Labels, { labels: { app: "web", "io.kubernetes.pod.name": "web" } }),
  };
}

/** The recorded ones, and those of the tests, which the engine has taken from the image and the request. */
function labelsOf(labels: Readonly<Record<string, string>>, { labels: recordedLabels }: Message): object {
  const ofTests = Object.entries(labels).filter(([key]) => key.startsWith("dockershim.test/"));
  return { ...(recordedLabels as object), ...Object.fromEntries(ofTests) };
}

function nanoseconds(text: string): string {
  const [seconds = "", fraction = ""] = text.replace(/Z$/, "").split(".");
  return `${Date.parse(`${seconds}Z`) / 1000}${fraction.padEnd(9, "0")}`;
}

function wholeSeconds(time: string): string {
  return time.replace(/\d{9}$/, "000000000");
}
