/**
 * The engine of another host through `ssh`, as the docker command line reaches it: each connection is a process
 * `ssh HOST docker system dial-stdio`. Clients connect to a private unix socket, behind which these run.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { type Server, type Socket, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SshEndpoint } from "./endpoint.js";

/** With the start of ssh and a name's look-up an endpoint that does not answer is known within 5 s. */
const connectSeconds = 4;
/** Limit of the end of ssh's output. A banner of the other host, of any length, comes first. */
const messageBytes = 1024;

export class SshTunnel {
  /** Path of the socket to connect to. */
  readonly path: string;
  readonly #directory: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #failure: string | undefined;

  /** `program` stands in for ssh in tests. */
  constructor(
    private readonly endpoint: SshEndpoint,
    private readonly program = "ssh",
  ) {
    this.#directory = mkdtempSync(join(tmpdir(), "dockershim-ssh-")); // Only for this user.
    this.path = join(this.#directory, "engine.sock");
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#connect(socket));
    // Node.js binds before this returns.
    this.#server.listen(this.path).unref();
  }

  /** Why the last connection failed, in ssh's words, and what shows or asks more. */
  get failure(): string | undefined {
    if (this.#failure === undefined) return undefined;
    const { user, host, port } = this.endpoint;
    const words = [
      ...["ssh", ...(port === undefined ? [] : ["-p", String(port)])],
      ...[user === undefined ? host : `${user}@${host}`, "docker", "version"],
    ];
    return `${this.#failure.replace(/\.$/, "")}; try "${words.join(" ")}" in a terminal`;
  }

  /** Ends all connections. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #connect(socket: Socket): void {
    this.#sockets.add(socket);
    // Nobody is there to answer a question; a terminal's interrupt is for this process alone.
    const child = spawn(this.program, sshArguments(this.endpoint), { detached: true });
    let message = "";
    child.stderr.on("data", (chunk: Buffer) => {
      message = `${message}${chunk.toString()}`.slice(-messageBytes);
    });
    child.stdout.pipe(socket, { end: false });
    socket.pipe(child.stdin);
    for (const stream of [child.stdin, child.stdout, child.stderr, socket])
      stream.on("error", () => undefined); // The end of the process, or of the socket, follows.
    child.on("error", (error) => {
      this.#failure = `start "${this.program}": ${error.message}`;
      socket.destroy();
    });
    child.on("close", (code) => {
      this.#failure = code === 0 ? undefined : (lastLine(message) ?? `ssh ended with ${String(code)}`);
      socket.end();
    });
    socket.on("close", () => {
      this.#sockets.delete(socket);
      child.kill();
    });
  }
}

function sshArguments({ user, host, port, path }: SshEndpoint): readonly string[] {
  return [
    ...["-T", "-o", "BatchMode=yes", "-o", `ConnectTimeout=${connectSeconds}`],
    ...(user === undefined ? [] : ["-l", user]),
    ...(port === undefined ? [] : ["-p", String(port)]),
    ...[
      "--",
      host,
      "docker",
      ...(path === undefined ? [] : [`--host=unix://${path}`]),
      "system",
      "dial-stdio",
    ],
  ];
}

function lastLine(text: string): string | undefined {
  return text.trim().split("\n").at(-1)?.trim() || undefined;
}
