/** The server in a container of its image, as docs/run/docker-desktop.md runs it, with names of a test run. */
import { execFile } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { docker, dockerEndpoint, dockerJson } from "./docker.js";
import { reasonForNoPrivileged } from "./privileged.js";
import { reasonToSkip } from "./test-bed.js";
import { until } from "./wait.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const isHere = dockerEndpoint.startsWith("unix:///run/") || dockerEndpoint.startsWith("unix:///var/run/");

/** Why the container cannot run here, or false. */
export async function reasonToSkipContainer(): Promise<string | false> {
  if (!isHere) return "the socket of the engine is not in /run";
  return (await reasonToSkip()) || (await reasonForNoPrivileged());
}

export class ServerContainer {
  readonly image: string;
  readonly name: string;
  /** Of the engine's host and of the container; the server's state is in it. */
  readonly directory: string;

  private constructor(readonly testRun: string) {
    this.image = `dockershim.test/image:${testRun}`;
    this.name = `dockershim-test-${testRun}`;
    this.directory = `/var/lib/dockershim/test-${testRun}`;
  }

  /** Makes the image and the directory. */
  static async prepare(testRun: string): Promise<ServerContainer> {
    const container = new ServerContainer(testRun);
    await mkdir(container.directory, { recursive: true });
    const options = { env: { ...process.env, DOCKER_HOST: dockerEndpoint } };
    await promisify(execFile)(process.execPath, [join(root, "scripts/image.mjs"), container.image], options);
    return container;
  }

  async start(): Promise<void> {
    const { DockerRootDir: engineRoot } = (await dockerJson("GET", "/info")) as { DockerRootDir: string };
    await dockerJson("POST", `/containers/create?name=${this.name}`, {
      Image: this.image,
      Cmd: ["--compose-labels", "--network-plugin=no-op", `--state-dir=${this.directory}`],
      Env: [
        `DOCKERSHIM_CONTAINER_RUNTIME_ENDPOINT=unix:///run/dockershim-test-${this.testRun}.sock`,
        `DOCKERSHIM_CADVISOR_SOCKET=/run/dockershim-test-${this.testRun}.cadvisor`,
        `DOCKERSHIM_DOCKER_ENDPOINT=${dockerEndpoint}`,
      ],
      HostConfig: {
        ...{ Privileged: true, PidMode: "host", NetworkMode: "host", CgroupnsMode: "host" },
        Binds: [
          ...["/run:/run", "/sys/fs/cgroup:/sys/fs/cgroup", "/var/log/pods:/var/log/pods"],
          `${engineRoot}:${engineRoot}`,
          "/var/lib/dockershim:/var/lib/dockershim:rshared",
        ],
      },
    });
    await dockerJson("POST", `/containers/${this.name}/start`);
    await until("the server answers", async () => (await this.run("pod", "ps")).code === 0);
  }

  /** `docker exec NAME dockershim …` */
  async run(...words: readonly string[]): Promise<{ readonly code: number; readonly said: string }> {
    const exec = { Cmd: ["dockershim", ...words], AttachStdout: true, AttachStderr: true };
    const { Id: id } = (await dockerJson("POST", `/containers/${this.name}/exec`, exec)) as { Id: string };
    const { body } = await docker("POST", `/exec/${id}/start`, { body: { Detach: false, Tty: false } });
    const { ExitCode: code } = (await dockerJson("GET", `/exec/${id}/json`)) as { ExitCode: number };
    return { code, said: body.toString() };
  }

  /** Removes the container alone. */
  async kill(): Promise<void> {
    await dockerJson("DELETE", `/containers/${this.name}?force=1`);
  }

  /** Removes what prepare() and start() made. */
  async remove(): Promise<void> {
    await docker("DELETE", `/containers/${this.name}?force=1`);
    await docker("DELETE", `/images/${this.image}?force=1`);
    await rm(this.directory, { recursive: true, force: true });
  }
}
