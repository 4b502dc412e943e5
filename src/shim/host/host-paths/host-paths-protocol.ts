/** What looks at paths of the node is told, and answers; the format is in native/host-paths.c. */
import { getSystemErrorMap } from "node:util";
import { SizedFrames } from "../../../lib/sized-frames.js";

/** `look`: does it exist; `make`: make a missing directory; `devices`: which device nodes are there. */
export type PathTask = "look" | "make" | "devices";

const letters: Readonly<Record<PathTask, string>> = { look: "l", make: "m", devices: "d" };

/** What a path may have with its NUL; the kernel takes no longer ones. */
export const pathLimitBytes = 4096;

/** `path` is absolute, of less than `pathLimitBytes`. */
export function pathWord(task: PathTask, path: string): string {
  return `${letters[task]}${path}`;
}

const outcomes = [
  "none",
  "present",
  "made",
  "missing",
  "lookFailed",
  "makeFailed",
  "danglingLink",
  "devices",
  "devicesEnd",
  "outside",
  "tooMany",
] as const;

export interface PathAnswer {
  /** Index of the entry. */
  readonly entry: number;
  readonly outcome: (typeof outcomes)[number];
  /** A number of a system error, or 0. */
  readonly errno: number;
  /** How many bytes of the path the failure is about. */
  readonly length: number;
  /** Paths of some of `devices`. */
  readonly names: readonly string[];
}

const answerHeadBytes = 20;
const answerLimitBytes = 4096;

/** Cuts a stream of bytes into answers. */
export function pathAnswers(): SizedFrames<PathAnswer> {
  return new SizedFrames({ headBytes: answerHeadBytes, limitBytes: answerLimitBytes }, parseAnswer);
}

/** Both architectures that the program is for are little endian. */
function parseAnswer(bytes: Buffer): PathAnswer {
  const [entry = 0, kind = 0, errno = 0, length = 0] = [4, 8, 12, 16].map((at) => bytes.readUInt32LE(at));
  const outcome = outcomes[kind];
  if (outcome === undefined) throw new Error("an answer of an unknown kind");
  const names = bytes.toString("utf8", answerHeadBytes).split("\0").slice(0, -1);
  return { entry, outcome, errno, length, names };
}

/** `no space left on device (ENOSPC)` */
export function systemErrorText(errno: number): string {
  const [name, text] = getSystemErrorMap().get(-errno) ?? [];
  return name === undefined ? `error ${errno}` : `${text ?? ""} (${name})`;
}
