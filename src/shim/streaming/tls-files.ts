/** The certificate and key files of the streaming server, which may be renewed while it runs. */
import { readFile, stat } from "node:fs/promises";
import { messageOf, ShimError } from "../../lib/errors.js";

export interface TlsMaterial {
  /** PEM. */
  readonly cert: Buffer;
  readonly key: Buffer;
}

export interface TlsPaths {
  readonly cert: string;
  readonly key: string;
}

const flags = { cert: "streaming-tls-cert-file", key: "streaming-tls-private-key-file" } as const;

/** Links are followed: tools that renew certificates replace a link. */
export class TlsFiles {
  #seen = "";

  constructor(private readonly paths: TlsPaths) {}

  /** Throws `invalid`, with the flag, for a file that cannot be read. */
  async read(): Promise<TlsMaterial> {
    // Before the files are read: files that change meanwhile are read again next time.
    const seen = await this.#state().catch(() => "");
    // In sequence: when both cannot be read, the error names the certificate.
    const cert = await this.#readOne("cert");
    const key = await this.#readOne("key");
    this.#seen = seen;
    return { cert, key };
  }

  /** When they have changed since the last `read`; else undefined. Throws as `read`. */
  async renewed(): Promise<TlsMaterial | undefined> {
    const present = await this.#state();
    return present === this.#seen ? undefined : this.read();
  }

  async #state(): Promise<string> {
    const states = [this.paths.cert, this.paths.key].map(async (path) => {
      const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true });
      return [dev, ino, size, mtimeNs].join(" ");
    });
    return (await Promise.all(states)).join("\n");
  }

  async #readOne(which: keyof TlsPaths): Promise<Buffer> {
    const path = this.paths[which];
    try {
      return await readFile(path);
    } catch (error) {
      const message = `--${flags[which]}: read ${JSON.stringify(path)}: ${messageOf(error)}`;
      throw new ShimError("invalid", message, { path }, { cause: error });
    }
  }
}
