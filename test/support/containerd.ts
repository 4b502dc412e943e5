/** A containerd of the tests alone, as a CRI server: its files, its socket and its pod network are its own. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { builtinPauseImage } from "../../src/shim/pause/pause-image.js";
import { connectCri } from "./cri-client.js";
import { pluginDirs } from "./isolated-engine.js";
import { until } from "./wait.js";

const run = promisify(execFile);

/** The program, and what it runs itself. */
export const containerdPrograms = ["containerd", "containerd-shim-runc-v2", "runc", "ctr"] as const;

export class Containerd implements AsyncDisposable {
  readonly endpoint: string;
  #log = "";

  private constructor(
    private readonly socket: string,
    private readonly end: () => Promise<void>,
  ) {
    this.endpoint = `unix://${socket}`;
  }

  /** `directory` is on a disk, and its path is short: containerd makes sockets below it. */
  static async start(directory: string): Promise<Containerd> {
    const socket = join(directory, "containerd.sock");
    const networks = join(directory, "net.d");
    await mkdir(networks, { recursive: true });
    await writeFile(join(networks, "10-tests.conflist"), JSON.stringify(network));
    const config = join(directory, "config.toml");
    const { reference, archive } = await builtinPauseImage(process.arch);
    await writeFile(config, configuration({ directory, socket, networks, pauseImage: reference }));
    const child = spawn("containerd", ["--config", config], { stdio: ["ignore", "ignore", "pipe"] });
    const exited = once(child, "exit");
    const server = new Containerd(socket, async () => {
      child.kill("SIGTERM");
      await exited;
    });
    child.stderr.on("data", (text: Buffer) => (server.#log += text.toString()));
    try {
      using cri = connectCri(socket);
      await until("containerd", async () => {
        if (child.exitCode !== null) throw new Error("containerd ended");
        const { status } = await cri.Status({}, { timeoutMs: 2_000 }).catch(() => ({ status: null }));
        const ready = (status?.conditions ?? []).filter((condition) => condition.status);
        const types = ready.map(({ type }) => type);
        return types.includes("RuntimeReady") && types.includes("NetworkReady");
      });
      await server.load(archive);
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw new Error(`start containerd:\n${server.#log}`, { cause: error });
    }
  }

  /** An archive as `POST /images/load` of an engine takes it. */
  async load(archive: Buffer): Promise<void> {
    const child = run("ctr", ["--address", this.socket, "--namespace", "k8s.io", "images", "import", "-"]);
    child.child.stdin?.end(archive);
    await child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

const network = {
  cniVersion: "0.4.0",
  name: "tests",
  plugins: [
    {
      type: "bridge",
      bridge: "cni-tests",
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.88.0.0/16" }]],
        routes: [{ dst: "0.0.0.0/0" }],
        dataDir: "/run/cni-tests",
      },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
};

/** Version 2 of the format: containerd 1.5 and later read it. */
function configuration(options: {
  readonly directory: string;
  readonly socket: string;
  readonly networks: string;
  readonly pauseImage: string;
}): string {
  const { directory, socket, networks, pauseImage } = options;
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = ${JSON.stringify(join(directory, "root"))}
state = ${JSON.stringify(join(directory, "state"))}
[grpc]
  address = ${JSON.stringify(socket)}
[${cri}]
  sandbox_image = ${JSON.stringify(pauseImage)}
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # Not every machine of the tests may lower scores.
  restrict_oom_score_adj = true
[${cri}.cni]
  bin_dir = ${JSON.stringify(pluginDirs.find((each) => existsSync(join(each, "bridge"))) ?? pluginDirs[0])}
  conf_dir = ${JSON.stringify(networks)}
`;
}
