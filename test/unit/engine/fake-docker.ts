/** A Docker Engine of HTTP answers on a temporary unix socket, as badly behaved as a test wants it. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { EngineClient, type EngineClientOptions } from "../../../src/shim/engine/http/client.js";
import { type DockerEngine, dockerEngine } from "../../../src/shim/engine/docker-engine.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

export type Respond = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;

export interface FakeDocker extends AsyncDisposable {
  readonly path: string;
  readonly server: Server;
  /** `GET /containers/json?all=1` of every request so far, the API version cut off. */
  readonly requests: readonly string[];
  /** API versions in the paths of the requests so far. */
  readonly versions: ReadonlySet<string>;
  /** Connections that are open now. */
  readonly sockets: ReadonlySet<Socket>;
  /** By method and path without version and query, as `GET /containers/x/json`; the path may end in `*`. */
  readonly answers: Map<string, Respond>;
  /** Engine and client for this server; `connect` is done where a version is named. */
  client(options?: Partial<Omit<EngineClientOptions, "endpoint">>): EngineClient;
  engine(options?: { readonly shortTimeoutMs?: number }): Promise<DockerEngine>;
  /** Resolves when the requests so far satisfy `enough`. */
  until(enough: (requests: readonly string[]) => boolean): Promise<void>;
}

export const version = { Version: "28.5.2", ApiVersion: "1.51", MinAPIVersion: "1.24", Arch: "amd64" };

/** Answers with JSON. */
export function json(value: unknown, status = 200): Respond {
  return (_request, response) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(value));
  };
}

/** A refusal in Docker's form. */
export function refuse(status: number, message: string): Respond {
  return json({ message }, status);
}

/** No answer, ever. */
export const hang: Respond = () => undefined;

/** An answer that breaks off in the middle. */
export function cut(start: string): Respond {
  return (_request, response) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": start.length + 100 });
    response.write(start, () => setImmediate(() => response.socket?.destroy()));
  };
}

/** Beside `more`, it answers what `connect` asks. */
export async function startFakeDocker(more: Readonly<Record<string, Respond>> = {}): Promise<FakeDocker> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "docker.sock");
  const requests: string[] = [];
  const versions = new Set<string>();
  const sockets = new Set<Socket>();
  const answers = new Map<string, Respond>([
    ["GET /version", json(version)],
    ["GET /info", json({})],
    ...Object.entries(more),
  ]);
  const closers: (() => void)[] = [];
  const changed = new EventTarget();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => undefined);
    request.on("end", () => {
      const [, apiVersion = "none", rest = ""] = /^(?:\/v(1\.\d+))?(\/.*)$/.exec(request.url ?? "") ?? [];
      versions.add(apiVersion);
      const method = request.method ?? "";
      requests.push(`${method} ${rest}`);
      changed.dispatchEvent(new Event("request"));
      const target = `${method} ${rest.replace(/\?.*$/, "")}`;
      const wildcard = [...answers.keys()].find(
        (key) => key.endsWith("*") && target.startsWith(key.slice(0, -1)),
      );
      const respond = answers.get(target) ?? (wildcard === undefined ? undefined : answers.get(wildcard));
      (respond ?? refuse(404, `fake: no answer for ${target}`))(request, response, Buffer.concat(chunks));
    });
  });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(path);
  await once(server, "listening");
  const client: FakeDocker["client"] = (options = {}) => {
    const made = new EngineClient({ endpoint: { kind: "unix", path }, shortTimeoutMs: 20_000, ...options });
    closers.push(() => made.close());
    return made;
  };
  return {
    path,
    server,
    requests,
    versions,
    sockets,
    answers,
    client,
    engine: async (options = {}) => {
      const engine = dockerEngine({ endpoint: { kind: "unix", path }, shortTimeoutMs: 20_000, ...options });
      closers.push(() => engine[Symbol.dispose]());
      await engine.connect(new AbortController().signal);
      requests.length = 0;
      return engine;
    },
    until: async (enough) => {
      while (!enough(requests)) await once(changed, "request");
    },
    [Symbol.asyncDispose]: async () => {
      for (const close of closers) close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) {
        server.close();
        await once(server, "close");
      }
      await directory[Symbol.asyncDispose]();
    },
  };
}
