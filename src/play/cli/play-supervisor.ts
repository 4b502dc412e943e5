/** The supervisor of a CRI socket: `play --supervise`, and its start by `play --detach`. */
import { spawn } from "node:child_process";
import { fstatSync, ftruncateSync } from "node:fs";
import { open } from "node:fs/promises";
import { sleep } from "../../lib/abort.js";
import { ShimError, isKind, messageOf } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { ownFiles } from "../../lib/own-files.js";
import { isServed } from "../../lib/unix-socket.js";
import type { StatusResponse } from "../../domain/cri.js";
import { connect } from "../cri/client.js";
import { readReach } from "../remote-engine/reach.js";
import { systemClock } from "../kubelet/clock.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import type { PlayStore } from "../store/play-store.js";
import { supervise } from "../session/supervisor.js";
import { LiveTable } from "../view/live-table.js";
import type { PlayContext, PlayOptions } from "./play-context.js";
import { readKubeletDeps, renewFacts } from "./play-deps.js";
import { openEngineAccess } from "./open-engine-access.js";
import type { EngineAccess } from "./engine-access.js";

/** A log that is a file begins anew after this. */
const logBytes = 4 * 1024 ** 2;
const retryMs = 2000;

/** The exit code: 0 also when there is a supervisor already. */
export async function runSupervisor({ options, io, store, directories }: PlayContext): Promise<number> {
  const { signal } = io;
  const screen = {
    write: (text: string) => {
      limitLog();
      io.stderr.write(`${new Date().toISOString()} ${text}`);
    },
  };
  const report = (line: string): void => screen.write(`${shownText(line)}\n`);
  const client = connect(options.endpoint);
  let access: EngineAccess | undefined;
  try {
    const show = (kubelet: Kubelet): Disposable => {
      const deps = { screen, output: screen, environment: process.env, clock: systemClock };
      return kubelet.listen(new LiveTable({ ...deps, pods: () => kubelet.pods }));
    };
    for (;;) {
      let server = "";
      const kubeletDeps = await whenServed(
        async () => {
          await access?.[Symbol.asyncDispose]();
          access = undefined;
          const status = await client.status(signal);
          server = identityOf(status);
          const { endpoint, dockerEndpoint } = options;
          const paths = { endpoint, dockerEndpoint, directories, report };
          access = await openEngineAccess(client, status, paths, signal);
          return readKubeletDeps(client, access, { report, status }, signal);
        },
        report,
        signal,
      );
      const isSameServer = async (): Promise<boolean> => identityOf(await client.status(signal)) === server;
      const { node } = kubeletDeps({}); // All plays have the same one.
      const renewNode = async (): Promise<void> => {
        if (access !== undefined) await renewFacts(node, access);
      };
      const deps = { store, kubeletDeps, renewNode, isSameServer, show, report };
      if ((await supervise(deps, signal)) === "ended") return 0;
      report("the socket leads to another CRI server or engine now: beginning anew");
    }
  } catch (error) {
    if (signal.aborted) return 0;
    if (!isKind(error, "conflict")) throw error;
    report("another supervisor keeps the pods of this socket");
    return 0;
  } finally {
    await access?.[Symbol.asyncDispose]();
    client.close();
  }
}

/** What play's choices depend on: where the engine is, and what the server can do. */
function identityOf({ info, runtime_handlers: handlers, features }: StatusResponse): string {
  return JSON.stringify([readReach(info), handlers, features]);
}

/** The supervisor may be started before the CRI server, as after a reboot. */
async function whenServed<T>(
  work: () => Promise<T>,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<T> {
  for (let isReported = false; ; isReported = true) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || !isKind(error, "unavailable", "timeout", "precondition")) throw error;
      if (!isReported) report(`waiting for the CRI server: ${messageOf(error)}`);
    }
    await sleep(retryMs, signal);
  }
}

/** A log that is a file begins anew when it is long; a journal has limits of its own. */
function limitLog(): void {
  const status = fstatSync(process.stderr.fd);
  if (status.isFile() && status.size > logBytes) ftruncateSync(process.stderr.fd);
}

const startMs = 15_000;
const askMs = 50;

/** Starts the supervisor unless it runs. It survives this process and its session. */
export async function ensureSupervisor(
  store: PlayStore,
  { endpoint, dockerEndpoint }: Pick<PlayOptions, "endpoint" | "dockerEndpoint">,
): Promise<void> {
  if (await isServed(store.socketPath)) return;
  const log = await open(store.logPath, "a", 0o600);
  try {
    const [program, ...self] = ownFiles().self;
    const engine = dockerEndpoint === undefined ? [] : [`--docker-endpoint=${dockerEndpoint}`];
    const child = spawn(
      program,
      [...self, "play", "--supervise", `--endpoint=unix://${endpoint}`, ...engine],
      {
        cwd: ownFiles().directory ?? "/", // Not the user's, which may be unmounted.
        // As bin/dockershim and the unit have them: docs/run/performance.md.
        env: { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072", ...process.env },
        detached: true,
        stdio: ["ignore", log.fd, log.fd],
      },
    );
    const failed = new Promise<never>((_, reject) => child.once("error", reject));
    child.unref();
    await Promise.race([failed, untilServed(store)]);
  } catch (error) {
    const remedy = `see ${store.logPath}; until one runs (dockershim play --supervise), nothing restarts the pods`;
    throw new ShimError("unavailable", `start the supervisor: ${messageOf(error)}; ${remedy}`);
  } finally {
    await log.close();
  }
}

async function untilServed(store: PlayStore): Promise<void> {
  const end = performance.now() + startMs;
  while (!(await isServed(store.socketPath))) {
    if (performance.now() > end)
      throw new ShimError("timeout", `it does not listen after ${startMs / 1000} s`);
    await sleep(askMs);
  }
}
