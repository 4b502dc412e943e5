/** A json-file log as Docker writes and rotates it. */
import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { gzipSync } from "node:zlib";
import { basename, dirname } from "node:path";

export interface Entry {
  readonly stream: "stdout" | "stderr";
  /** With its newline, if it has one. */
  readonly text: string;
}

export class FakeDockerLog {
  /** The lines of the log in the CRI's format. */
  readonly expected: string[] = [];
  #clock = 0;

  constructor(
    readonly path: string,
    private readonly options: { readonly maxFiles?: number; readonly compress?: boolean } = {},
  ) {
    writeFileSync(path, "");
  }

  write(entries: readonly Entry[], attributes?: Readonly<Record<string, string>>): void {
    let text = "";
    for (const { stream, text: log } of entries) {
      this.#clock += 1;
      const time = `2026-01-02T15:04:05.${String(this.#clock).padStart(9, "0")}Z`;
      const attrs = attributes === undefined ? "" : `,"attrs":${JSON.stringify(attributes)}`;
      text += `{"log":${escaped(log)},"stream":"${stream}"${attrs},"time":"${time}"}\n`;
      const whole = log.endsWith("\n");
      this.expected.push(`${time} ${stream} ${whole ? "F" : "P"} ${whole ? log.slice(0, -1) : log}\n`);
    }
    appendFileSync(this.path, text);
  }

  /** Rotates between two entries, as the engine. */
  rotate(): void {
    const { maxFiles = 100, compress = false } = this.options;
    const suffix = compress ? ".gz" : "";
    rmSync(`${this.path}.${String(maxFiles - 1)}${suffix}`, { force: true });
    for (let age = maxFiles - 2; age >= 1; age -= 1) {
      const old = `${this.path}.${String(age)}${suffix}`;
      if (existsSync(old)) renameSync(old, `${this.path}.${String(age + 1)}${suffix}`);
    }
    renameSync(this.path, `${this.path}.1`);
    writeFileSync(this.path, "");
    if (compress) {
      writeFileSync(`${this.path}.1.gz`, gzipSync(readFileSync(`${this.path}.1`)));
      rmSync(`${this.path}.1`);
    }
  }

  get files(): readonly string[] {
    return readdirSync(dirname(this.path)).filter((name) => name.startsWith(basename(this.path)));
  }
}

/** Go's encoder, as Docker uses it: HTML characters and the two line separators are escaped as well. */
export function escaped(text: string): string {
  return JSON.stringify(text).replace(/[<>&\u2028\u2029\x7f]/g, (character) =>
    character === "\x7f" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
