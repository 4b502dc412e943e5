/** A pod of a test: a sandbox with containers, through the CRI. */
import type {
  Answer,
  ContainerConfig,
  ContainerStatus,
  PodSandboxConfig,
  PodSandboxStatus,
} from "../../src/domain/cri.js";
import type { CriClient } from "./cri-client.js";
import { until } from "./wait.js";

export interface ExecResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

interface ConfigSource {
  containerConfig(overrides?: Answer<ContainerConfig>): Answer<ContainerConfig>;
}

export class Pod implements AsyncDisposable {
  private constructor(
    private readonly source: ConfigSource,
    private readonly cri: CriClient,
    readonly id: string,
    readonly config: Answer<PodSandboxConfig>,
  ) {}

  static async run(
    source: ConfigSource,
    cri: CriClient,
    config: Answer<PodSandboxConfig>,
    runtimeHandler = "",
  ): Promise<Pod> {
    const { pod_sandbox_id } = await cri.RunPodSandbox({ config, runtime_handler: runtimeHandler });
    return new Pod(source, cri, pod_sandbox_id, config);
  }

  /** The same pod, asked at another server. */
  through(cri: CriClient): Pod {
    return new Pod(this.source, cri, this.id, this.config);
  }

  async status(): Promise<PodSandboxStatus> {
    const { status } = await this.cri.PodSandboxStatus({ pod_sandbox_id: this.id });
    if (status === null) throw new Error("PodSandboxStatus without a status");
    return status;
  }

  async ip(): Promise<string> {
    return (await this.status()).network?.ip ?? "";
  }

  /** Creates a container; answers its id. */
  async create(overrides: Answer<ContainerConfig> = {}): Promise<string> {
    const { container_id } = await this.cri.CreateContainer({
      pod_sandbox_id: this.id,
      config: this.source.containerConfig(overrides),
      sandbox_config: this.config,
    });
    return container_id;
  }

  /** Creates and starts a container; answers its id. */
  async start(overrides: Answer<ContainerConfig> = {}): Promise<string> {
    const id = await this.create(overrides);
    await this.cri.StartContainer({ container_id: id });
    return id;
  }

  async exec(containerId: string, ...command: string[]): Promise<ExecResult> {
    const answer = await this.cri.ExecSync({ container_id: containerId, cmd: command, timeout: "30" });
    return {
      stdout: answer.stdout.toString(),
      stderr: answer.stderr.toString(),
      exitCode: answer.exit_code,
    };
  }

  /** Standard output of a shell command that must succeed, without white space around it. */
  async shell(containerId: string, script: string): Promise<string> {
    const { stdout, stderr, exitCode } = await this.exec(containerId, "sh", "-c", script);
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}${stdout}`);
    return stdout.trim();
  }

  async containerStatus(containerId: string): Promise<ContainerStatus> {
    const { status } = await this.cri.ContainerStatus({ container_id: containerId });
    if (status === null) throw new Error("ContainerStatus without a status");
    return status;
  }

  /** Returns the status of a container that has ended by itself. */
  async untilExited(containerId: string): Promise<ContainerStatus> {
    return until(`container ${containerId} to end`, async () => {
      const status = await this.containerStatus(containerId);
      return status.state === 2 ? status : undefined;
    });
  }

  async stop(): Promise<void> {
    await this.cri.StopPodSandbox({ pod_sandbox_id: this.id });
  }

  async remove(): Promise<void> {
    await this.cri.RemovePodSandbox({ pod_sandbox_id: this.id });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.remove();
  }
}
