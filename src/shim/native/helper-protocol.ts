/** The protocol of the helper that starts programs; the format is in native/run-programs.c. */
import { constants } from "node:os";
import { ShimError } from "../../lib/errors.js";
import { SizedFrames } from "../../lib/sized-frames.js";
import type { ProgramEnd, ProgramRequest } from "./start-program.js";

const kinds = { run: 1, input: 2, kill: 3, leave: 4 } as const;

const requestHeadBytes = 12;
const countBytes = 12;

/** Throws `invalid` when a text has a NUL. */
export function encodeRun(id: number, { program, words, environment }: ProgramRequest): Buffer {
  const variables = Object.entries(environment).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  );
  return encodeTexts(id, [pathsOf(program, environment["PATH"]), [program, ...words], variables]);
}

/** The request of a verb of the helper. Throws as above. */
export function encodeVerb(id: number, words: readonly string[]): Buffer {
  return encodeTexts(id, [[], words, []]);
}

function encodeTexts(id: number, lists: readonly (readonly string[])[]): Buffer {
  const texts = lists.flat();
  if (texts.some((text) => text.includes("\0")))
    throw new ShimError("invalid", "run a program: a NUL in its words or environment");
  const counts = Buffer.alloc(countBytes);
  for (const [index, { length }] of lists.entries()) counts.writeUInt32LE(length, index * 4);
  return request(id, "run", [counts, Buffer.from(texts.map((text) => `${text}\0`).join(""))]);
}

export function encodeInput(id: number, input: string): Buffer {
  return request(id, "input", [Buffer.from(input)]);
}

export function encodeOrder(id: number, order: "kill" | "leave"): Buffer {
  return request(id, order, []);
}

function request(id: number, kind: keyof typeof kinds, parts: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(requestHeadBytes);
  const whole = Buffer.concat([head, ...parts]);
  whole.writeUInt32LE(whole.length, 0);
  whole.writeUInt32LE(id, 4);
  whole.writeUInt32LE(kinds[kind], 8);
  return whole;
}

/** Where execvp of glibc looks for a program. */
function pathsOf(program: string, searched = "/bin:/usr/bin"): readonly string[] {
  if (program.includes("/")) return [program];
  return searched.split(":").map((directory) => `${directory === "" ? "." : directory}/${program}`);
}

export type ProgramAnswer = { readonly id: number } & (
  | { readonly kind: "started"; readonly pid: number; readonly stat: string }
  | { readonly kind: "failed"; readonly errno: number }
  | { readonly kind: "stdout" | "stderr"; readonly bytes: Buffer }
  | { readonly kind: "ended"; readonly end: ProgramEnd }
  | { readonly kind: "closed" }
);

const answerKinds = ["none", "started", "failed", "stdout", "stderr", "ended", "closed"] as const;
const answerHeadBytes = 16;
const answerLimitBytes = 64 * 1024;

/** Cuts a stream of bytes into answers. */
export function programAnswers(): SizedFrames<ProgramAnswer> {
  return new SizedFrames({ headBytes: answerHeadBytes, limitBytes: answerLimitBytes }, answerIn);
}

function answerIn(bytes: Buffer): ProgramAnswer {
  const id = bytes.readUInt32LE(4);
  const kind = answerKinds[bytes.readUInt32LE(8)];
  const value = bytes.readUInt32LE(12);
  switch (kind) {
    case "started":
      return { id, kind, pid: value, stat: bytes.toString("latin1", answerHeadBytes) };
    case "failed":
      return { id, kind, errno: value };
    case "stdout":
    case "stderr":
      return { id, kind, bytes: bytes.subarray(answerHeadBytes) };
    case "ended":
      return { id, kind, end: endOf(value) };
    case "closed":
      return { id, kind };
    default:
      throw new Error("an answer of an unknown kind");
  }
}

/** From the status of a process as the kernel gives it. */
function endOf(status: number): ProgramEnd {
  const signal = status & 0x7f;
  if (signal === 0) return { exitCode: (status >> 8) & 0xff, signalName: undefined };
  const [name = `signal ${signal}`] =
    Object.entries(constants.signals).find(([, number]) => number === signal) ?? [];
  return { exitCode: undefined, signalName: name };
}
