/** An engine elsewhere for tests of files of play: a fake engine, the real program, and a directory as its volumes. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { EngineFiles } from "../../../../src/play/remote-engine/engine-files.js";
import { helperName, podsVolume } from "../../../../src/play/pod-config/volume-names.js";
import type { Labels } from "../../../../src/domain/labels.js";
import { imageArchitecture } from "../../../../src/shim/native/programs.js";
import type { ProcessStreams, VolumeSnapshot } from "../../../../src/shim/ports/engine.js";
import { FakeEngine } from "../../../fakes/fake-engine.js";

const architecture = imageArchitecture(process.arch) ?? "";
const program = fileURLToPath(new URL(`../../../../native/bin/helper-${architecture}`, import.meta.url));
export const skip =
  process.platform === "linux" && architecture !== "" && process.getuid?.() === 0
    ? false
    : "the program needs Linux, root and a known architecture";
export const endpoint = 'ssh://root@far (context "lab")';
const reference = "dockershim.local/play-files:3";

/** Volumes are directories; an exec runs the program. */
export class EngineWithProgram extends FakeEngine {
  readonly children: ChildProcess[] = [];
  /** Of the input of a program: what it gets is written to the result. */
  onInput: (input: Writable, child: ChildProcess) => Writable = (input) => input;

  constructor(private readonly volumesPath: string) {
    super();
  }

  override async createVolume(name: string, labels: Labels, signal: AbortSignal): Promise<VolumeSnapshot> {
    await super.createVolume(name, labels, signal);
    const mountpoint = join(this.volumesPath, name, "_data");
    await mkdir(mountpoint, { recursive: true, mode: 0o755 });
    return { mountpoint, driver: "local" };
  }

  override async startExec(): Promise<ProcessStreams> {
    const child = spawn(program, ["play-files", this.volumesPath, "dockershim-play"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.children.push(child);
    await Promise.resolve();
    return {
      input: this.onInput(child.stdin, child),
      readOutput: async (take) => {
        for await (const chunk of child.stdout) await take("stdout", chunk as Buffer, true);
      },
      close: () => child.stdin.end(),
    };
  }

  /** All execs end with the container. */
  override async removeContainer(
    ...args: Parameters<FakeEngine["removeContainer"]>
  ): Promise<"removed" | "missing"> {
    for (const child of this.children) child.kill("SIGKILL");
    return super.removeContainer(...args);
  }

  helper() {
    return this.containers.find(helperName);
  }

  propagation(): string | undefined {
    return this.helper()?.body.HostConfig.Mounts?.find(({ Type }) => Type === "bind")?.BindOptions
      ?.Propagation;
  }
}

export interface Bed {
  readonly engine: EngineWithProgram;
  readonly files: EngineFiles;
  readonly other: EngineFiles;
  /** The directory of pod `uid`. */
  readonly pod: string;
  readonly volumesPath: string;
  readonly reports: string[];
}

export async function inVolumes(work: (bed: Bed) => Promise<void>): Promise<void> {
  const volumesPath = await mkdtemp(join(tmpdir(), "engine-files-"));
  const engine = new EngineWithProgram(volumesPath);
  const reports: string[] = [];
  const deps = {
    ...{ engine, facts: engine.facts, volumesPath, endpoint },
    report: (line: string) => void reports.push(line),
    image: {
      reference,
      archive: () => {
        engine.images.add({ tags: [reference] });
        return Promise.resolve(Buffer.from("archive"));
      },
    },
  };
  const [files, other] = [new EngineFiles(deps), new EngineFiles(deps)];
  try {
    const pod = join(volumesPath, podsVolume, "_data", "uid");
    await work({ engine, files, other, pod, volumesPath, reports });
  } finally {
    await files[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    for (const child of engine.children) child.kill("SIGKILL");
    await rm(volumesPath, { recursive: true, force: true });
  }
}
