/** How many files containers may open by default: told in the log, and by `dockershim doctor ulimits`. */
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { DockerUlimit } from "../../domain/create-body.js";
import { sandboxType, typeLabel } from "../../domain/labels.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess, OpenFileLimits } from "../ports/host.js";

/**
 * The soft limit of services of systemd, which containers have with packages of Docker and containerd whose
 * units name no limit. Programs that need more and do not raise it themselves fail with EMFILE.
 */
const lowSoftLimit = 1024;

/** Number of sandboxes of one engine connection whose limits are read until one is known. */
const attempts = 5;

export function isLow({ soft }: OpenFileLimits): boolean {
  return soft <= lowSoftLimit;
}

/** The ulimit that dockershim itself gives to each container. */
export function configuredOpenFiles(defaultUlimits: readonly DockerUlimit[]): DockerUlimit | undefined {
  return defaultUlimits.find(({ Name }) => Name === "nofile");
}

/**
 * Logs a low default once. The pause container of a pod, which gets no ulimits of ours, has what the engine
 * gives to every container; an engine says nothing of that itself.
 */
export class OpenFilesNotice {
  #attemptsLeft = attempts;
  #said = "";

  constructor(
    private readonly deps: {
      readonly host: () => HostAccess;
      readonly defaultUlimits: readonly DockerUlimit[];
      readonly log: Pick<Logger, "warn" | "debug">;
    },
  ) {}

  /** The engine may have been restarted with other limits. */
  engineFound(): void {
    this.#attemptsLeft = attempts;
  }

  /** Told of every container that was inspected. Reads /proc for the first sandboxes that run, and then no more. */
  observe(snapshot: Snapshot): void {
    if (this.#attemptsLeft === 0 || configuredOpenFiles(this.deps.defaultUlimits) !== undefined) return;
    if (!snapshot.state.running || snapshot.labels[typeLabel] !== sandboxType) return;
    this.#attemptsLeft -= 1;
    void this.#look(snapshot);
  }

  async #look(sandbox: Snapshot): Promise<void> {
    const { host, log } = this.deps;
    try {
      const limits = await host().openFileLimits(sandbox);
      if (limits === undefined) return;
      this.#attemptsLeft = 0;
      const said = `${String(limits.soft)}:${String(limits.hard)}`;
      if (!isLow(limits) || this.#said === said) return;
      this.#said = said;
      log.warn(
        { soft: limits.soft, hard: limits.hard },
        "the engine lets containers open few files: give --default-ulimits=nofile=SOFT:HARD if pods need more",
      );
    } catch (error) {
      log.debug(
        { sandboxId: sandbox.id, err: messageOf(error) },
        "cannot read the limits of a pause container",
      );
    }
  }
}

/** The limits of the first pause container whose process is in reach. */
export async function readOpenFileLimits(
  engine: Pick<Engine, "listContainers" | "inspectContainer">,
  host: Pick<HostAccess, "openFileLimits">,
  signal: AbortSignal,
): Promise<OpenFileLimits | undefined> {
  const sandboxes = await engine.listContainers({ labelKey: typeLabel, labelValue: sandboxType }, signal);
  for (const { id, status } of sandboxes) {
    if (status !== "running") continue;
    const sandbox = await engine.inspectContainer(id, signal);
    const limits = sandbox === undefined ? undefined : await host.openFileLimits(sandbox);
    if (limits !== undefined) return limits;
  }
  return undefined;
}
