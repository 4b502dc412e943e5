/** Where no OOM score can be lowered: nested engines, CI, anything without CAP_SYS_RESOURCE. */
import { readFile } from "node:fs/promises";
import type { Logger } from "../../../lib/log.js";
import { messageOf } from "../../../lib/errors.js";
import { findDockerd, LimitedLook } from "./find-engine.js";
import { ProcFiles } from "./proc-files.js";

/** The values of `--clamp-oom-scores`. */
export type OomScoreClamping =
  /** Find out, from the engine's process or from the first container that fails. */
  | "auto"
  /** No container gets a lower score than the engine itself. */
  | "always"
  /** Send scores as they are. */
  | "never";

export interface HostOomScoresOptions {
  /** The engine's socket. If given, only a process that listens there counts as the engine's. */
  readonly socketPath?: string | undefined;
  /** The engine's pid file. */
  readonly pidFile?: string;
  /** For tests. */
  readonly proc?: ProcFiles;
}

/** CAP_SYS_RESOURCE is capability 24: without it a process may raise OOM scores but not lower them. */
const sysResourceBit = 1n << 24n;

/** The first user namespace, in which the kernel wants that capability. */
const firstUserNamespace = "user:[4026531837]";

/**
 * The errors of runc when it may not write the score: its first process dies without a reason, or the write
 * is refused. The whole text is matched, because authors of pods choose parts of other texts.
 */
const failurePattern = new RegExp(
  [
    "^(?:failed to create task for container: )?(?:failed to create shim task: )?",
    "(?:OCI runtime create failed: )?(?:runc create failed: )?(?:container_linux\\.go:\\d+: )?",
    "(?:unable to start container process: |starting container process caused:? \\W*)?",
    "(?:process_linux\\.go:\\d+: )?(?:error during container init: |container init caused:? \\W*)?",
    "(?:can't get final child's PID from pipe: EOF|getting the final child's pid from pipe caused:? \\W*EOF",
    "|write /proc/self/oom_score_adj: permission denied)\\W*(?:: unknown)?$",
  ].join(""),
);

/** Deadline of one look at the engine's process. Connecting to the engine waits for it. */
const lookLimitMs = 5_000;

/** Texts of files; undefined for what cannot be read. */
interface EngineFiles {
  /** The score of this program. */
  readonly inherited: string | undefined;
  readonly status: string | undefined;
  readonly score: string | undefined;
  readonly userNamespace: string | undefined;
}

/** The lowest OOM score of containers: the engine's own, for only going below needs the capability. */
export class HostOomScores {
  readonly #proc: ProcFiles;
  readonly #look = new LimitedLook("look at the engine's process", lookLimitMs);
  #floor: number | undefined;
  /** Whether the engine's capabilities are known: then failing containers are no evidence. */
  #isCertain = false;
  /** The lowest score of this program's children, and of an engine beside it in a container. */
  #inherited = 0;

  constructor(
    private readonly clamping: OomScoreClamping,
    private readonly log: Logger,
    private readonly options: HostOomScoresOptions = {},
  ) {
    this.#proc = options.proc ?? new ProcFiles();
    if (clamping === "always") this.#floor = 0;
  }

  /** After each connect to a local engine. What was known holds when it cannot be seen. Never throws. */
  async detect(): Promise<void> {
    if (this.clamping === "never") return;
    try {
      this.#apply(await this.#look.run(undefined, () => this.#engineFiles()));
    } catch (error) {
      this.log.warn({ err: messageOf(error) }, "cannot find out whether the engine can lower OOM scores");
    }
  }

  async #engineFiles(): Promise<EngineFiles> {
    const inherited = await this.#proc.text("self", "oom_score_adj");
    const pid = await this.#enginePid();
    const [status, score, userNamespace] = await Promise.all([
      this.#proc.text(pid, "status"),
      this.#proc.text(pid, "oom_score_adj"),
      this.#proc.link(pid, "ns/user"),
    ]);
    return { inherited, status, score, userNamespace };
  }

  #apply({ inherited, status, score, userNamespace }: EngineFiles): void {
    this.#inherited = Math.max(0, Number.parseInt(inherited ?? "0", 10));
    const own = Number.parseInt(score ?? "", 10);
    const effective = capabilities("CapEff", status);
    const bounding = capabilities("CapBnd", status);
    if (Number.isNaN(own) || effective === undefined || bounding === undefined) return;
    this.#isCertain = true;
    if (this.clamping === "always") {
      this.#limit(own, "--clamp-oom-scores=always");
    } else if ((effective & bounding & sysResourceBit) === 0n) {
      this.#limit(own, "the engine has no CAP_SYS_RESOURCE");
    } else if (userNamespace !== undefined && userNamespace !== firstUserNamespace) {
      this.#limit(own, "the engine runs in a user namespace");
    } else {
      this.#floor = undefined;
    }
  }

  clamp(wanted: number): number {
    return this.#floor === undefined ? wanted : Math.max(wanted, this.#floor);
  }

  /** Whether this host cannot lower scores; remembered until a container with just that score fails, too. */
  learnFromFailure(score: number, error: unknown): boolean {
    if (this.clamping !== "auto") return false;
    // A concurrent start of another container has found the limit.
    if (this.#floor !== undefined && score < this.#floor) return true;
    if (this.#isCertain || !failurePattern.test(messageOf(error))) return false;
    if (this.#floor !== undefined && score === this.#floor) this.#floor = undefined;
    if (this.#floor !== undefined || score >= 0) return false;
    this.#limit(this.#inherited, "a container with a negative score did not start");
    return true;
  }

  /** Undefined: no limit. For the first screen and verbose Status. */
  get floor(): number | undefined {
    return this.#floor;
  }

  /** 0 when there is none to be seen. */
  async #enginePid(): Promise<number> {
    const { socketPath, pidFile = "/var/run/docker.pid" } = this.options;
    if (socketPath !== undefined) return (await findDockerd(this.#proc, socketPath))?.pid ?? 0;
    const text = (await readFile(pidFile, "utf8").catch(() => "")).trim();
    const pid = /^\d{1,10}$/.test(text) ? Number(text) : 0;
    return (await this.#proc.command(pid)) === "dockerd" ? pid : 0;
  }

  #limit(floor: number, reason: string): void {
    if (this.#floor === floor) return;
    this.#floor = floor;
    const message = "OOM scores cannot be lowered on this host: containers get no lower score than this";
    this.log.warn({ floor, reason }, message);
  }
}

function capabilities(name: string, status: string | undefined): bigint | undefined {
  const digits = new RegExp(`^${name}:\\s*([0-9a-f]+)$`, "m").exec(status ?? "")?.[1];
  return digits === undefined ? undefined : BigInt(`0x${digits}`);
}
