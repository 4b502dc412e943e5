/**
 * Answers checkpoint requests as an experimental engine with CRIU, which few machines have. Passes all others
 * on.
 */
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { dockerJson } from "./docker.js";

export interface CheckpointStandIn extends AsyncDisposable {
  readonly socket: string;
  /** Whether a request is for it. */
  readonly takes: (request: { readonly method: string; readonly path: string }) => boolean;
}

export async function startCheckpointStandIn(socket: string): Promise<CheckpointStandIn> {
  const server = createServer((incoming, outgoing) => {
    answer(incoming).then(
      ([status, body]) => {
        const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
        outgoing.writeHead(status, headers).end(body);
      },
      (error: unknown) => {
        outgoing.writeHead(500).end(JSON.stringify({ message: String(error) }));
      },
    );
  });
  server.listen(socket);
  await once(server, "listening");
  return {
    socket,
    takes: ({ method, path }) =>
      (method === "GET" && path === "/info") || (method === "POST" && path.endsWith("/checkpoints")),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function answer(incoming: IncomingMessage): Promise<readonly [status: number, body: string]> {
  if (incoming.method === "GET") {
    const info = (await dockerJson("GET", "/info")) as Readonly<Record<string, unknown>>;
    return [200, JSON.stringify({ ...info, ExperimentalBuild: true })];
  }
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const { CheckpointID, CheckpointDir } = JSON.parse(Buffer.concat(chunks).toString()) as Readonly<
    Record<"CheckpointID" | "CheckpointDir", string>
  >;
  const directory = join(CheckpointDir, CheckpointID);
  await mkdir(directory);
  await writeFile(join(directory, "pages-1.img"), "memory of the stand-in");
  return [201, ""];
}
