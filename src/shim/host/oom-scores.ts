/** Hosts on which no OOM score can be lowered: nested engines, CI machines, anything without CAP_SYS_RESOURCE. */
import { readFile } from "node:fs/promises";
import type { Logger } from "../base/log.js";
import { messageOf } from "../base/errors.js";

export type OomScorePolicy =
  /** Find out, from the engine's process or from the first container that fails. */
  | "auto"
  /** Send scores as they are. */
  | "always"
  /** Never send a score below the engine's own. */
  | "never";

/** CAP_SYS_RESOURCE is capability 24: without it a process may raise OOM scores but not lower them. */
const sysResourceBit = 1n << 24n;

const pidFile = "/var/run/docker.pid";

/** How runc fails when it may not write the score: its first process dies before it says why, or the write is refused. */
const failurePatterns = [/oom_score_adj/i, /can't get final child's PID from pipe/i];

export class HostOomScores {
  #floor: number | undefined;

  constructor(
    private readonly policy: OomScorePolicy,
    private readonly log: Logger,
  ) {
    if (policy === "never") this.#floor = 0;
  }

  /** Looks at the engine's process, if it is one of ours to see. To be called after each connect to a local engine. */
  async detect(): Promise<void> {
    if (this.policy !== "auto" || this.#floor !== undefined) return;
    const pid = (await readFile(pidFile, "utf8").catch(() => "")).trim();
    if (!/^\d+$/.test(pid)) return;
    const [comm, status, score] = await Promise.all(
      ["comm", "status", "oom_score_adj"].map((name) => readFile(`/proc/${pid}/${name}`, "utf8").catch(() => "")),
    );
    const bounding = /^CapBnd:\s*([0-9a-f]+)$/m.exec(status ?? "")?.[1];
    if (comm?.trim() !== "dockerd" || bounding === undefined) return;
    if ((BigInt(`0x${bounding}`) & sysResourceBit) !== 0n) return;
    this.#limit(Math.max(0, Number(score)), "the engine has no CAP_SYS_RESOURCE");
  }

  clamp(wanted: number): number {
    return this.#floor === undefined ? wanted : Math.max(wanted, this.#floor);
  }

  learnFromFailure(score: number, error: unknown): boolean {
    if (this.policy !== "auto" || this.#floor !== undefined || score >= 0) return false;
    if (!failurePatterns.some((pattern) => pattern.test(messageOf(error)))) return false;
    this.#limit(0, "a container with a negative score did not start");
    return true;
  }

  /** Undefined: no limit. For the first screen and verbose Status. */
  get floor(): number | undefined {
    return this.#floor;
  }

  #limit(floor: number, reason: string): void {
    this.#floor = floor;
    this.log.warn({ floor, reason }, "OOM scores cannot be lowered on this host: containers get no lower score than this");
  }
}
