/** A registry of the tests' own: the distribution's docker-registry on a free port of 127.0.0.1. */
import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { extract } from "tar-stream";
import { openToEngine } from "./engine-host.js";
import { until } from "./wait.js";

const binary = process.env["DOCKERSHIM_TEST_REGISTRY_BINARY"] ?? "/usr/bin/docker-registry";

/** Why there is no registry here, or false. */
export function noRegistryReason(): string | false {
  return binary !== "" && existsSync(binary) ? false : "no docker-registry on this host";
}

export const registryUser = "puller";
export const registryPassword = "Geheim-4711-xyzzy";
/** bcrypt of the password; nothing but the tests' registry knows it. */
const passwordHash = "$2y$05$abcdefghijklmnopqrstuuUQLw2lG3H5ZRp88GvMVd6zYBi/rnzjC";

export interface PushedImage {
  /** Repository with host and port, without a tag. */
  readonly repository: string;
  readonly tag: string;
  /** Of the manifest list, as `sha256:…`. */
  readonly digest: string;
}

export class TestRegistry implements AsyncDisposable {
  readonly host: string;
  #opened: AsyncDisposable | undefined;

  private constructor(
    private readonly child: ChildProcess,
    port: number,
    private readonly headers: Readonly<Record<string, string>>,
  ) {
    this.host = `127.0.0.1:${port}`;
  }

  /** `directory` holds its configuration and its blobs. With `login` it lets in only `registryUser`. */
  static async start(directory: string, { login = false } = {}): Promise<TestRegistry> {
    await mkdir(directory, { recursive: true });
    const port = await freePort();
    const passwords = join(directory, "htpasswd");
    await writeFile(passwords, `${registryUser}:${passwordHash}\n`);
    const configuration = {
      version: "0.1",
      log: { level: "error", accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: join(directory, "data") } },
      http: { addr: `127.0.0.1:${port}` },
      ...(login ? { auth: { htpasswd: { realm: "test", path: passwords } } } : {}),
    };
    const file = join(directory, "config.yml");
    await writeFile(file, JSON.stringify(configuration)); // JSON is YAML.
    const child = spawn(binary, ["serve", file], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (text: Buffer) => (said += text.toString()));
    const key = Buffer.from(`${registryUser}:${registryPassword}`).toString("base64");
    const registry = new TestRegistry(child, port, login ? { Authorization: `Basic ${key}` } : {});
    try {
      await until("the registry to answer", async () => {
        if (child.exitCode !== null) throw new Error(`docker-registry ended: ${said}`);
        const answer = await registry.#request("GET", "/v2/").catch(() => undefined);
        return answer?.ok;
      });
      registry.#opened = await openToEngine(port);
      return registry;
    } catch (error) {
      await registry[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * Puts an image archive (with an OCI layout) under `name` and `tag`, below a manifest list, as public
   * images are: a repository's digest is that of the list and not that of the manifest.
   */
  async push(name: string, tag: string, archive: Buffer): Promise<PushedImage> {
    const { manifest, platform, blobs } = await readLayout(archive);
    for (const bytes of blobs) await this.#putBlob(name, bytes);
    const { mediaType } = manifest;
    await this.#putManifest(name, digestOf(manifest.bytes), mediaType, manifest.bytes);
    const index = {
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.index.v1+json",
      manifests: [
        { mediaType, digest: digestOf(manifest.bytes), size: manifest.bytes.length, platform },
        // Another platform: it must not be chosen.
        {
          mediaType,
          digest: digestOf(manifest.bytes),
          size: manifest.bytes.length,
          platform: { architecture: "s390x", os: "linux" },
        },
      ],
    };
    const bytes = Buffer.from(JSON.stringify(index));
    await this.#putManifest(name, tag, index.mediaType, bytes);
    return { repository: `${this.host}/${name}`, tag, digest: digestOf(bytes) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened?.[Symbol.asyncDispose]();
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill("SIGKILL");
    await once(this.child, "exit");
  }

  async #putBlob(name: string, bytes: Buffer): Promise<void> {
    const begun = await this.#request("POST", `/v2/${name}/blobs/uploads/`);
    const location = new URL(begun.headers.get("location") ?? "", `http://${this.host}`);
    location.searchParams.set("digest", digestOf(bytes));
    await this.#expect(201, "PUT", location.pathname + location.search, bytes, "application/octet-stream");
  }

  async #putManifest(name: string, reference: string, mediaType: string, bytes: Buffer): Promise<void> {
    await this.#expect(201, "PUT", `/v2/${name}/manifests/${reference}`, bytes, mediaType);
  }

  async #expect(status: number, method: string, path: string, body: Buffer, type: string): Promise<void> {
    const answer = await this.#request(method, path, body, type);
    if (answer.status !== status) {
      throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    }
  }

  #request(method: string, path: string, body?: Buffer, type?: string): Promise<Response> {
    return fetch(`http://${this.host}${path}`, {
      method,
      headers: { ...this.headers, ...(type === undefined ? {} : { "Content-Type": type }) },
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    });
  }
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

interface Layout {
  readonly manifest: { readonly mediaType: string; readonly bytes: Buffer };
  readonly platform: unknown;
  /** Configuration and layers. */
  readonly blobs: readonly Buffer[];
}

async function readLayout(archive: Buffer): Promise<Layout> {
  const contents = new Map<string, Buffer>();
  let index: unknown;
  const entries = extract();
  entries.end(archive);
  for await (const entry of entries) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    if (entry.header.name === "index.json") index = JSON.parse(bytes.toString());
    if (entry.header.name.startsWith("blobs/")) contents.set(digestOf(bytes), bytes);
  }
  const [first] = (index as { manifests: { mediaType: string; digest: string; platform: unknown }[] })
    .manifests;
  const bytes = contents.get(first?.digest ?? "");
  if (first === undefined || bytes === undefined) throw new Error("the archive has no manifest");
  contents.delete(first.digest);
  const { mediaType, platform } = first;
  return { manifest: { mediaType, bytes }, platform, blobs: [...contents.values()] };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
