/** The certificate of the streaming server and its key, as files that somebody may renew. */
import { readFile, stat } from "node:fs/promises";
import { messageOf, ShimError } from "../lib/errors.js";

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

/** Links are followed: tools that renew certificates exchange them in this way. */
export class TlsFiles {
  #seen = "";

  constructor(private readonly paths: TlsPaths) {}

  /** Throws `invalid`, with the flag, for a file that cannot be read. */
  async read(): Promise<TlsMaterial> {
    // Before the files are read: what changes meanwhile is read again at the next look.
    const seen = await this.#look().catch(() => "");
    // One after the other: of two that cannot be read, always the same one is named.
    const cert = await this.#readOne("cert");
    const key = await this.#readOne("key");
    this.#seen = seen;
    return { cert, key };
  }

  /**
   * What is in the files now, when they are others than at the last `read`; else undefined. Throws as `read`.
   */
  async renewed(): Promise<TlsMaterial | undefined> {
    const present = await this.#look();
    return present === this.#seen ? undefined : this.read();
  }

  async #look(): Promise<string> {
    const looks = [this.paths.cert, this.paths.key].map(async (path) => {
      const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true });
      return [dev, ino, size, mtimeNs].join(" ");
    });
    return (await Promise.all(looks)).join("\n");
  }

  async #readOne(which: keyof TlsPaths): Promise<Buffer> {
    const path = this.paths[which];
    try {
      return await readFile(path);
    } catch (error) {
      throw new ShimError(
        "invalid",
        `--${flags[which]}: read ${JSON.stringify(path)}: ${messageOf(error)}`,
        { path },
        { cause: error },
      );
    }
  }
}
