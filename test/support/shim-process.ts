/** The real program as a child process. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { connectCri, type ApiVersion, type CriClient } from "./cri-client.js";
import { dockerEndpoint, tlsEnvironment } from "./docker.js";
import { isEngineElsewhere } from "./engine-host.js";
import { programArguments } from "./program-words.js";
import { until } from "./wait.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const startTimeoutMs = 120_000;
/** `play` opens the engine of the server when that engine is not on this host. */
const engineEnvironment = isEngineElsewhere
  ? { ...tlsEnvironment, DOCKER_HOST: dockerEndpoint }
  : tlsEnvironment;
/** As bin/dockershim and `npm start` have it. */
const memoryEnvironment = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" };

export interface ShimOptions {
  /** Holds the state directory and the socket. */
  readonly directory: string;
  readonly dockerEndpoint?: string;
  /** After those that every shim of the tests gets, so they win. */
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** For Node.js itself. */
  readonly nodeFlags?: readonly string[];
  /** The command to start in place of the tests' own program. */
  readonly program?: readonly string[];
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the program with `argv`, and only that. */
function spawnProgram(
  argv: readonly string[],
  environment: Readonly<Record<string, string>>,
  nodeFlags: readonly string[] = [],
  [command = process.execPath, ...words]: readonly string[] = [
    process.execPath,
    ...nodeFlags,
    ...programArguments(),
  ],
): ChildProcess {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(DOCKERSHIM_|DOCKER_|NODE_TEST|NODE_OPTIONS|NOTIFY_SOCKET|LISTEN_)/.test(name),
  );
  return spawn(command, [...words, ...argv], {
    cwd: root,
    env: { ...Object.fromEntries(inherited), ...memoryEnvironment, ...engineEnvironment, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** Runs the program to its end, as the commands other than `serve` and refused starts have it. */
export async function runProgram(
  argv: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Exit> {
  const child = spawnProgram(argv, environment);
  const timer = setTimeout(() => child.kill("SIGKILL"), startTimeoutMs);
  try {
    return await collect(child);
  } finally {
    clearTimeout(timer);
  }
}

async function collect(child: ChildProcess): Promise<Exit> {
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => (texts[name] += text));
  }
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  return { code, signal, ...texts };
}

/** A command that runs until a signal ends it. */
export class CommandProcess {
  #output = "";
  readonly #exited: Promise<Exit>;

  private constructor(private readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (text: Buffer) => (this.#output += text.toString()));
    this.#exited = collect(child);
  }

  static start(argv: readonly string[], environment: Readonly<Record<string, string>> = {}): CommandProcess {
    return new CommandProcess(spawnProgram(argv, environment));
  }

  /** What it has printed so far, on both streams. */
  get output(): string {
    return this.#output;
  }

  /** When it ends by itself. */
  get exited(): Promise<Exit> {
    return this.#exited;
  }

  /** Throws with what the command printed when it ends before. */
  async untilPrinted(pattern: RegExp): Promise<void> {
    const ended = this.#exited.then(({ stdout, stderr }) => {
      throw new Error(`the command ended without ${String(pattern)}:\n${stdout}${stderr}`);
    });
    ended.catch(() => undefined); // It ends later, too.
    await Promise.race([until(String(pattern), () => pattern.test(this.#output)), ended]);
  }

  async end(signal: NodeJS.Signals): Promise<Exit> {
    this.child.kill(signal);
    return this.#exited;
  }
}

export class ShimProcess implements AsyncDisposable {
  readonly socket: string;
  readonly endpoint: string;
  readonly cadvisorSocket: string;
  readonly stateDirectory: string;
  readonly #child: ChildProcess;
  readonly #clients: CriClient[] = [];
  #log = "";
  #client: CriClient | undefined;
  #exit: Exit | undefined;
  /** Resolves when the process has ended, however it did. */
  readonly exited: Promise<Exit>;

  private constructor(options: ShimOptions) {
    this.socket = join(options.directory, "cri.sock");
    this.endpoint = `unix://${this.socket}`;
    this.cadvisorSocket = join(options.directory, "cadvisor.sock");
    this.stateDirectory = join(options.directory, "state");
    this.#child = spawnProgram(
      [
        "--network-plugin=no-op",
        `--pod-infra-container-image=${builtinPauseReference}`,
        `--state-dir=${this.stateDirectory}`,
        `--container-runtime-endpoint=${this.endpoint}`,
        `--cadvisor-socket=${this.cadvisorSocket}`,
        `--docker-endpoint=${options.dockerEndpoint ?? dockerEndpoint}`,
        // The process behind a proxy's socket is no engine, so that the shim would learn only from a failed
        // start what scores the engine may set.
        ...(options.dockerEndpoint === undefined ? [] : ["--clamp-oom-scores=always"]),
        ...(options.flags ?? []),
      ],
      options.environment ?? {},
      options.nodeFlags,
      options.program,
    );
    this.#child.stderr?.on("data", (text: Buffer) => (this.#log += text.toString()));
    this.#child.stdout?.on("data", (text: Buffer) => (this.#log += text.toString()));
    this.exited = collect(this.#child).then((exit) => (this.#exit = exit));
  }

  /** Does not wait for anything. */
  static spawn(options: ShimOptions): ShimProcess {
    return new ShimProcess(options);
  }

  /** Returns when it says that it serves; throws with its output when it ends instead. */
  static async start(options: ShimOptions): Promise<ShimProcess> {
    const shim = ShimProcess.spawn(options);
    try {
      await shim.untilLogged(/"msg":"serving"/);
      return shim;
    } catch (error) {
      await shim.kill();
      throw error;
    }
  }

  /**
   * Returns as soon as the socket takes connections: without an engine long before the program says that it
   * serves.
   */
  static async startWithoutEngine(options: ShimOptions): Promise<ShimProcess> {
    const shim = ShimProcess.spawn(options);
    while (!(await accepts(shim.socket))) {
      if (shim.#exit !== undefined) throw new Error(`the shim ended:\n${shim.log}`);
      await sleep(20);
    }
    return shim;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Everything that it has printed so far. */
  get log(): string {
    return this.#log;
  }

  /** A client of runtime.v1. */
  get cri(): CriClient {
    return (this.#client ??= this.client("v1"));
  }

  client(version: ApiVersion): CriClient {
    const client = connectCri(this.socket, version);
    this.#clients.push(client);
    return client;
  }

  /** Returns when the output matches; throws when the process ends or the time is over. */
  async untilLogged(pattern: RegExp): Promise<void> {
    const { stdout, stderr } = this.#child;
    await new Promise<void>((resolve, reject) => {
      const finish = (error?: Error): void => {
        clearTimeout(timer);
        stdout?.off("data", look);
        stderr?.off("data", look);
        if (error === undefined) resolve();
        else reject(error);
      };
      const look = (): void => {
        if (pattern.test(this.#log)) finish();
      };
      const timer = setTimeout(() => {
        finish(new Error(`the shim did not say ${String(pattern)}:\n${this.#log}`));
      }, startTimeoutMs);
      stdout?.on("data", look);
      stderr?.on("data", look);
      void this.exited.then(() => finish(new Error(`the shim ended:\n${this.#log}`)));
      look();
    });
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** As a crash or the OOM killer ends it. */
  async kill(): Promise<Exit> {
    this.#closeClients();
    this.signal("SIGKILL");
    return this.exited;
  }

  async stop(): Promise<Exit> {
    this.#closeClients();
    this.signal("SIGTERM");
    return this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#exit === undefined) await this.kill();
  }

  #closeClients(): void {
    for (const client of this.#clients.splice(0)) client[Symbol.dispose]();
    this.#client = undefined;
  }
}

async function accepts(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
