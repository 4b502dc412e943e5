/** Lines of container log files, in the formats of Docker's json-file and of the CRI. */

/** A piece of a container's output. */
export interface LogPiece {
  /** RFC 3339; empty when the line has none. */
  readonly time: string;
  readonly stream: string;
  /** Without its line end. */
  readonly text: string;
  /** Whether the container's line ends here. */
  readonly isEnd: boolean;
}

const criPattern = /^(\d{4}-\S+) (stdout|stderr) ([PF])(?::\S*)? (.*)$/s;

/** Parses a line of a log file, without its line end. A line of neither format becomes the text as it is. */
export function parseLogLine(line: string): LogPiece {
  const cri = criPattern.exec(line);
  if (cri !== null)
    return { time: cri[1] ?? "", stream: cri[2] ?? "", text: cri[4] ?? "", isEnd: cri[3] === "F" };
  const docker = line.startsWith("{") ? parseJson(line) : undefined;
  if (docker !== undefined) {
    const isEnd = docker.log.endsWith("\n");
    const { time, stream } = docker;
    return { time, stream, text: isEnd ? docker.log.slice(0, -1) : docker.log, isEnd };
  }
  return { time: "", stream: "stdout", text: line, isEnd: true };
}

function parseJson(
  line: string,
): { readonly log: string; readonly stream: string; readonly time: string } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined; // Not Docker's form after all.
  }
  if (typeof value !== "object" || value === null) return undefined;
  const log = "log" in value ? value.log : undefined;
  const stream = "stream" in value ? value.stream : undefined;
  if (typeof log !== "string") return undefined;
  const time = "time" in value && typeof value.time === "string" ? value.time : "";
  return { log, stream: typeof stream === "string" ? stream : "stdout", time };
}

/** A program may write a line that never ends. */
const longestLine = 1024 ** 2;

/** Puts the pieces of long lines together again. */
export class LineAssembler {
  readonly #open = new Map<string, string>();

  /** Splits a line longer than `maxLength`. */
  constructor(private readonly maxLength = longestLine) {}

  /** The line that `piece` completes, or undefined. */
  add({ stream, text, isEnd }: Pick<LogPiece, "stream" | "text" | "isEnd">): string | undefined {
    const line = (this.#open.get(stream) ?? "") + text;
    if (!isEnd && line.length < this.maxLength) {
      this.#open.set(stream, line);
      return undefined;
    }
    this.#open.delete(stream);
    return line;
  }

  /** The text of lines without an end. */
  flush(): readonly string[] {
    const rest = [...this.#open.values()];
    this.#open.clear();
    return rest;
  }
}

/** The container's output in (the end of) a log file. */
export function outputOf(logText: string): readonly string[] {
  const assembler = new LineAssembler();
  const lines = logText.split("\n").filter((line) => line !== "");
  return [
    ...lines.map((line) => assembler.add(parseLogLine(line))).filter((line) => line !== undefined),
    ...assembler.flush(),
  ];
}
