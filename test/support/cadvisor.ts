/** cAdvisor's calls to containerd, in its order. */
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { setTimeout as sleep } from "node:timers/promises";

export interface CadvisorContainer {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly image: string;
  readonly spec: { readonly type_url: string; readonly value: Buffer };
}

export interface CadvisorTask {
  readonly container_id: string;
  readonly id: string;
  readonly pid: number;
  readonly status: string;
  readonly exit_status: number;
}

/** As cAdvisor takes a cgroup for a container: its last part has 64 such characters. */
export function idOfCgroup(cgroup: string): string | undefined {
  const name = cgroup.split("/").at(-1) ?? "";
  return name.endsWith(".mount") ? undefined : /[a-z0-9]{64}/.exec(name)?.[0];
}

const services = {
  version: "containerd.services.version.v1.Version/Version",
  container: "containerd.services.containers.v1.Containers/Get",
  task: "containerd.services.tasks.v1.Tasks/Get",
} as const;
const rpcs = { version: "GetVersion", container: "GetContainer", task: "GetTask" } as const;
type Call = keyof typeof services;

export class CadvisorClient implements Disposable {
  readonly #client: grpc.Client;
  readonly #methods: grpc.ServiceDefinition;

  constructor(path: string) {
    const file = new URL("../../proto/cadvisor.proto", import.meta.url).pathname;
    const loaded = loadSync(file, { keepCase: true, defaults: true, enums: String });
    this.#methods = loaded["dockershim.cadvisor.Containers"] as grpc.ServiceDefinition;
    this.#client = new grpc.Client(`unix:${path}`, grpc.credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
      // As cAdvisor's client.
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 3_000,
    });
  }

  async version(): Promise<string> {
    return ((await this.#call("version", {})) as { version: string }).version;
  }

  /** `deadlineMs`: cAdvisor has 2 s for the first of its two calls, and no limit for the second. */
  async container(id: string, deadlineMs = 2_000): Promise<CadvisorContainer> {
    const { container } = (await this.#call("container", { id }, deadlineMs)) as {
      container: CadvisorContainer;
    };
    return container;
  }

  async task(id: string): Promise<CadvisorTask> {
    return ((await this.#call("task", { container_id: id })) as { process: CadvisorTask }).process;
  }

  /** What cAdvisor does about a new cgroup; undefined when it leaves it without a name. */
  async handle(
    cgroup: string,
  ): Promise<{ readonly container: CadvisorContainer; readonly pid: number } | undefined> {
    const id = idOfCgroup(cgroup);
    if (id === undefined) return undefined;
    const accepted = await this.container(id).catch(() => undefined);
    if (accepted === undefined) return undefined;
    const container = await this.container(id, Infinity);
    JSON.parse(container.spec.value.toString());
    for (let pauseMs = 100; ; pauseMs *= 2) {
      try {
        const { status, pid } = await this.task(id);
        if (status !== "UNKNOWN") return { container, pid };
      } catch (error) {
        if ((error as grpc.ServiceError).code !== grpc.status.NOT_FOUND) throw error;
      }
      if (pauseMs > 1_600) throw new Error(`the task of ${id} is not there in time`);
      await sleep(pauseMs);
    }
  }

  /** The exit code of a container that has ended. */
  async exitCode(id: string): Promise<number> {
    const { status, exit_status } = await this.task(id);
    if (status !== "STOPPED") throw new Error(`container ${id} has not ended: ${status}`);
    return exit_status;
  }

  #call(call: Call, request: object, deadlineMs = Infinity): Promise<unknown> {
    const method = this.#methods[rpcs[call]];
    if (method === undefined) throw new Error(`no RPC for ${call}`);
    const metadata = new grpc.Metadata();
    metadata.set("containerd-namespace", "k8s.io");
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        `/${services[call]}`,
        method.requestSerialize as (value: object) => Buffer,
        method.responseDeserialize,
        request,
        metadata,
        // cAdvisor's calls wait for a server that is being restarted.
        {
          waitForReady: true,
          ...(deadlineMs === Infinity ? {} : { deadline: Date.now() + deadlineMs }),
        } as grpc.CallOptions,
        (error, answer) => {
          if (error === null) resolve(answer);
          else reject(error);
        },
      );
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}
