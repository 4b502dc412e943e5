/** A registry with one image, just enough of one to be pulled from, on a free port of 127.0.0.1. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { openToEngine } from "./engine-host.js";
import { digestOf, readLayout } from "./registry.js";

export interface SingleImageRegistry extends AsyncDisposable {
  /** `127.0.0.1:port` */
  readonly host: string;
  readonly manifestDigest: string;
  /** Paths of all requests so far. */
  readonly requests: readonly string[];
}

/**
 * Serves the image in `archive` (with an OCI layout) under any name with tag `1`. `login` is `user:password`.
 */
export async function startRegistry(archive: Buffer, login?: string): Promise<SingleImageRegistry> {
  const { manifest, blobs } = await readLayout(archive);
  const contents = new Map<string, { readonly type: string; readonly bytes: Buffer }>(
    blobs.map((bytes) => [digestOf(bytes), { type: "application/octet-stream", bytes }] as const),
  );
  const manifestDigest = digestOf(manifest.bytes);
  for (const name of ["1", manifestDigest])
    contents.set(name, { type: manifest.mediaType, bytes: manifest.bytes });
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    requests.push(path);
    if (
      login !== undefined &&
      request.headers.authorization !== `Basic ${Buffer.from(login).toString("base64")}`
    ) {
      response.setHeader("WWW-Authenticate", 'Basic realm="test"');
      answerError(response, 401, "UNAUTHORIZED", "authentication required");
      return;
    }
    const name = /\/(?:manifests|blobs)\/([^/?]+)$/.exec(path)?.[1];
    if (path === "/v2/") {
      response.end("{}");
      return;
    }
    const content = contents.get(name ?? "");
    if (content === undefined) {
      answerError(response, 404, "MANIFEST_UNKNOWN", "manifest unknown");
      return;
    }
    response.setHeader("Content-Type", content.type);
    response.setHeader("Content-Length", content.bytes.length);
    response.setHeader("Docker-Content-Digest", digestOf(content.bytes));
    response.end(request.method === "HEAD" ? undefined : content.bytes);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const opened = await openToEngine(port).catch((error: unknown) => {
    server.close();
    throw error;
  });
  return {
    host: `127.0.0.1:${port}`,
    manifestDigest,
    requests,
    [Symbol.asyncDispose]: async () => {
      await opened[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function answerError(response: ServerResponse, status: number, code: string, message: string): void {
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ errors: [{ code, message }] }));
}
