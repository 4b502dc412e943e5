/** A registry with one image, just enough of one to be pulled from, on a free port of 127.0.0.1. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extract } from "tar-stream";

export interface TestRegistry extends AsyncDisposable {
  /** `127.0.0.1:port` */
  readonly host: string;
  readonly manifestDigest: string;
  /** Paths of all requests so far. */
  readonly requests: readonly string[];
}

interface Content {
  readonly type: string;
  readonly bytes: Buffer;
}

/** Serves the image in `archive` (with an OCI layout) under any name with tag `1`. `login` is `user:password`. */
export async function startRegistry(archive: Buffer, login?: string): Promise<TestRegistry> {
  const contents = await readLayout(archive);
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
  const manifest = contents.get("1");
  if (manifest === undefined) throw new Error("the archive has no manifest");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    manifestDigest: digestOf(manifest.bytes),
    requests,
    [Symbol.asyncDispose]: async () => {
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

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** All blobs by digest, and the manifest as `1`. */
async function readLayout(archive: Buffer): Promise<ReadonlyMap<string, Content>> {
  const contents = new Map<string, Content>();
  let index: unknown;
  const entries = extract();
  entries.end(archive);
  for await (const entry of entries) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    if (entry.header.name === "index.json") index = JSON.parse(bytes.toString());
    contents.set(digestOf(bytes), { type: "application/octet-stream", bytes });
  }
  const { manifests } = index as { manifests: { mediaType: string; digest: string }[] };
  for (const { mediaType, digest } of manifests) {
    const bytes = contents.get(digest)?.bytes ?? Buffer.alloc(0);
    contents.set(digest, { type: mediaType, bytes });
    contents.set("1", { type: mediaType, bytes });
  }
  return contents;
}
