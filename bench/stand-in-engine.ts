/** A Docker Engine that holds pods which have ended, and can do nothing else: for lists longer than a machine has room for. */
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";

export interface StandInOptions {
  readonly socket: string;
  readonly containers: number;
  readonly containersPerPod: number;
}

interface StandInContainer {
  readonly listed: object;
  readonly inspected: string;
}

const created = "2026-01-02T03:04:05.678901234Z";
const createdSeconds = Math.floor(Date.parse(created) / 1000);
const imageId = `sha256:${"ab".repeat(32)}`;
const imageName = "registry.example/team/application@sha256:" + "cd".repeat(32);

export class StandInEngine implements AsyncDisposable {
  readonly endpoint: string;
  readonly sandboxIds: string[] = [];
  readonly containerIds: string[] = [];
  /** Requests so far, pings and all. */
  requests = 0;
  readonly #containers = new Map<string, StandInContainer>();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #list = "[]";

  private constructor(options: StandInOptions) {
    this.endpoint = `unix://${options.socket}`;
    this.#fill(options);
    this.#server = createServer((request, response) => {
      request.resume();
      this.requests += 1;
      const [, path = ""] = /^(?:\/v1\.\d+)?([^?]*)/.exec(request.url ?? "") ?? [];
      this.#answer(path, response);
    });
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async listen(options: StandInOptions): Promise<StandInEngine> {
    const engine = new StandInEngine(options);
    engine.#server.listen(options.socket);
    await once(engine.#server, "listening");
    return engine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #fill({ containers, containersPerPod }: StandInOptions): void {
    for (let index = 0; index < containers; index += 1) {
      const podIndex = Math.floor(index / containersPerPod);
      const sandboxId = idOf("a", podIndex);
      const pod = {
        "io.kubernetes.pod.name": `application-${String(podIndex).padStart(5, "0")}-7d9f8b6c5-x2x4z`,
        "io.kubernetes.pod.namespace": `team-${String(podIndex % 20)}`,
        "io.kubernetes.pod.uid": uidOf(podIndex),
      };
      if (index % containersPerPod === 0) {
        this.sandboxIds.push(sandboxId);
        this.#add(sandboxId, nameOf("POD", pod, 0), {
          ...pod,
          app: "application",
          "pod-template-hash": "7d9f8b6c5",
          "io.kubernetes.container.name": "POD",
          "io.kubernetes.docker.type": "podsandbox",
          "annotation.kubernetes.io/config.seen": created,
          "annotation.kubernetes.io/config.source": "api",
        });
      }
      const id = idOf("c", index);
      const name = `main-${String(index % containersPerPod)}`;
      this.containerIds.push(id);
      this.#add(id, nameOf(name, pod, 1), {
        ...pod,
        "io.kubernetes.container.name": name,
        "io.kubernetes.docker.type": "container",
        "io.kubernetes.sandbox.id": sandboxId,
        "io.kubernetes.container.logpath": `/var/log/pods/${uidOf(podIndex)}/${name}/1.log`,
        "annotation.io.kubernetes.container.hash": "5a3c9f21",
        "annotation.io.kubernetes.container.restartCount": "1",
        "annotation.io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "annotation.io.kubernetes.container.terminationMessagePolicy": "File",
        "annotation.io.kubernetes.pod.terminationGracePeriod": "30",
      });
    }
    this.#list = JSON.stringify([...this.#containers.values()].map(({ listed }) => listed));
  }

  #add(id: string, name: string, labels: Readonly<Record<string, string>>): void {
    this.#containers.set(id, {
      listed: {
        ...{ Id: id, Names: [`/${name}`], Image: imageName, ImageID: imageId, Created: createdSeconds },
        ...{ Labels: labels, State: "exited", Status: "Exited (0) 2 days ago", HostConfig: {}, Mounts: [] },
      },
      inspected: JSON.stringify({
        ...{ Id: id, Name: `/${name}`, Created: created, Image: imageId, LogPath: "", ResolvConfPath: "" },
        State: {
          ...{
            Status: "exited",
            Running: false,
            Paused: false,
            Pid: 0,
            ExitCode: 0,
            Error: "",
            OOMKilled: false,
          },
          ...{ StartedAt: created, FinishedAt: created },
        },
        Config: { Image: imageName, Labels: labels, User: "", StopSignal: "SIGTERM" },
        HostConfig: {
          ...{ NetworkMode: "default", PidMode: "", IpcMode: "shareable", CgroupParent: "", Runtime: "runc" },
          ...{ LogConfig: { Type: "json-file", Config: {} }, CpuShares: 102, Memory: 134_217_728 },
          Binds: [
            "/var/lib/kubelet/pods/x/etc-hosts:/etc/hosts",
            "/var/lib/kubelet/pods/x/volumes/y:/data:ro",
          ],
        },
        Mounts: [
          { Type: "bind", Source: "/var/lib/kubelet/pods/x/etc-hosts", Destination: "/etc/hosts", RW: true },
          { Type: "bind", Source: "/var/lib/kubelet/pods/x/volumes/y", Destination: "/data", RW: false },
        ],
        NetworkSettings: { Networks: {} },
      }),
    });
  }

  #answer(path: string, response: ServerResponse): void {
    const id = /^\/containers\/([0-9a-f]{64})\/json$/.exec(path)?.[1];
    const container = id === undefined ? undefined : this.#containers.get(id);
    if (path === "/_ping") send(response, 200, "OK");
    else if (path === "/version") sendJson(response, 200, version);
    else if (path === "/info") sendJson(response, 200, info);
    else if (path === "/containers/json") send(response, 200, this.#list);
    else if (container !== undefined) send(response, 200, container.inspected);
    else if (path === "/images/json") sendJson(response, 200, []);
    else if (/^\/images\/.*\/json$/.test(path)) sendJson(response, 200, image);
    else if (path === "/events") {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.flushHeaders();
    } else sendJson(response, 404, { message: `the stand-in has no ${path}` });
  }
}

const version = { Version: "28.5.2", ApiVersion: "1.51", MinAPIVersion: "1.24", Arch: "amd64", Os: "linux" };
const info = {
  ...{
    ID: "stand-in",
    OperatingSystem: "stand-in",
    KernelVersion: "6.1",
    CgroupDriver: "cgroupfs",
    MemTotal: 1e9,
  },
  ...{ CgroupVersion: "2", DockerRootDir: "/var/lib/docker", Driver: "overlay2", LoggingDriver: "json-file" },
  ...{ Runtimes: { runc: {} }, DefaultRuntime: "runc", SecurityOptions: [], ExperimentalBuild: false },
};
const image = {
  ...{ Id: imageId, RepoTags: ["registry.example/team/application:1.2.3"], RepoDigests: [imageName] },
  ...{ Created: created, Size: 123_456_789, Config: { User: "", Labels: {} } },
};

function send(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
  });
  response.end(body);
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  send(response, status, JSON.stringify(body));
}

/** 64 hexadecimal digits, of which the first tell ids apart, as in Docker's. */
function idOf(kind: "a" | "c", index: number): string {
  const unlike = ((index * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, "0");
  return `${unlike}${kind}${String(index).padStart(8, "0")}`.padEnd(64, kind);
}

function uidOf(podIndex: number): string {
  return `6f1b2c3d-0000-4000-8000-${String(podIndex).padStart(12, "0")}`;
}

function nameOf(container: string, pod: Readonly<Record<string, string>>, attempt: number): string {
  const parts = ["io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"];
  return ["k8s", container, ...parts.map((label) => pod[label] ?? ""), String(attempt)].join("_");
}
