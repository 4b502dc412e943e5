/** Questions of the OCI runtime and their answers; the format is in native/oci-runtime.c. */

export interface RuntimeQuestion {
  /** Container id. */
  readonly id: string;
  /** Of the OCI runtime, in its own PID namespace. */
  readonly pid: number;
  /** The text of config.json. */
  readonly specification: string;
}

export type RuntimeAnswer =
  | { readonly kind: "changed"; readonly specification: string }
  | { readonly kind: "refused"; readonly reason: string }
  /** The container may be another server's. */
  | { readonly kind: "unknown" };

const questionHeadBytes = 16;
const questionLimitBytes = 17 * 1024 * 1024;
const version = 1;
const idLimitBytes = 1024;

const answerHeadBytes = 8;
const answerKinds = { changed: 1, refused: 2, unknown: 3 } as const;

/** Puts the parts of one question together. */
export class QuestionReader {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #wanted = questionHeadBytes;

  /** The question that `chunk` completes, undefined before. Throws for what is none. */
  take(chunk: Buffer): RuntimeQuestion | undefined {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#wanted) return undefined;
    const bytes = Buffer.concat(this.#chunks.splice(0));
    this.#chunks.push(bytes);
    this.#wanted = bytes.readUInt32LE(0);
    const idBytes = bytes.readUInt32LE(12);
    if (bytes.readUInt32LE(4) !== version) throw new Error("it is of another version");
    if (this.#wanted > questionLimitBytes || idBytes > idLimitBytes) throw new Error("it is too large");
    if (this.#wanted < questionHeadBytes + idBytes || bytes.length > this.#wanted)
      throw new Error("its size is impossible");
    if (bytes.length < this.#wanted) return undefined;
    const id = bytes.toString("utf8", questionHeadBytes, questionHeadBytes + idBytes);
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return {
      id,
      pid: bytes.readUInt32LE(8),
      specification: text.decode(bytes.subarray(questionHeadBytes + idBytes)),
    };
  }
}

export function encodeAnswer(answer: RuntimeAnswer): Buffer {
  const text =
    answer.kind === "changed"
      ? answer.specification
      : answer.kind === "refused"
        ? JSON.stringify(answer.reason).slice(1, -1)
        : "";
  const head = Buffer.alloc(answerHeadBytes);
  const bytes = Buffer.concat([head, Buffer.from(text)]);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt32LE(answerKinds[answer.kind], 4);
  return bytes;
}
