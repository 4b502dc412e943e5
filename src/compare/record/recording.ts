/** The format of recordings, one JSON object per line: a header, calls in the order of their ends, an end. */
import { createReadStream } from "node:fs";
import { ShimError } from "../../lib/errors.js";
import { fileError } from "../../lib/files/file-errors.js";

export const recordingFormat = "dockershim-recording";
export const recordingVersion = 1;

export interface RecordingHeader {
  readonly format: typeof recordingFormat;
  readonly version: typeof recordingVersion;
  /** RFC 3339. */
  readonly startedAt: string;
  /** The server's answer to Version. */
  readonly server: {
    readonly version?: string;
    readonly runtime_name?: string;
    readonly runtime_version?: string;
    readonly runtime_api_version?: string;
  };
  readonly node: {
    readonly kernel: string;
    readonly architecture: string;
    readonly cpus: number;
    readonly memoryBytes: number;
  };
}

/**
 * Messages as proto-loader decodes them (`keepCase`, `longs: String`, enums as numbers), without members that
 * are null, 0, false or an empty list. Bytes are `{"base64": "…"}`; `{"omitted": 12}` stands for 12 bytes that
 * were left out. `redacted:5` stands for the fifth distinct secret of the recording.
 */
export interface RecordedCall {
  /** Milliseconds from the start of the recording to the begin of the call. */
  readonly at: number;
  /** Duration in milliseconds. */
  readonly ms: number;
  /** As `RunPodSandbox`. */
  readonly rpc: string;
  readonly request?: Readonly<Record<string, unknown>>;
  readonly response?: Readonly<Record<string, unknown>>;
  /** The messages of a stream, in place of `response`. */
  readonly responses?: readonly Readonly<Record<string, unknown>>[];
  /** `code` is gRPC's number. Not there when the server answered OK. */
  readonly error?: { readonly code: number; readonly message: string };
  /** The client did not wait for the answer, or the connection ended. */
  readonly end?: "cancelled" | "disconnected";
  /** Messages are missing: too large, too many, or compressed. */
  readonly truncated?: true;
}

/** The last line. */
export interface RecordingEnd {
  readonly end: true;
  readonly calls: number;
  /** Calls that were seen and are not in the recording, because the recorder could not keep up. */
  readonly dropped: number;
  /** Why it ended. */
  readonly reason: "stopped" | "duration" | "size";
}

export interface Recording {
  readonly header: RecordingHeader;
  /** To be read once. Throws `invalid` at a line that is damaged. */
  readonly calls: AsyncIterable<RecordedCall>;
  /** After the last call: the last line, undefined when the recording was cut off. */
  end(): RecordingEnd | undefined;
  close(): void;
}

/** A pod with a list of 16 MiB, and its escapes. */
const defaultLineBytes = 64 * 1024 * 1024;

/** Reads line by line. Throws `invalid` for a file that is not a recording or has a newer version. */
export async function openRecording(
  path: string,
  { largestLineBytes = defaultLineBytes }: { readonly largestLineBytes?: number } = {},
): Promise<Recording> {
  const input = createReadStream(path);
  const lines = linesOf(input, path, largestLineBytes);
  try {
    const first = await lines.next();
    const header = first.done === true ? undefined : parseLine(path, first.value, 1);
    if (header === undefined || header === "cut off")
      throw invalid(path, "the file is empty or cut off in its first line");
    checkHeader(path, header);
    let end: RecordingEnd | undefined;
    const calls = async function* (): AsyncGenerator<RecordedCall> {
      let number = 1;
      for await (const line of lines) {
        number += 1;
        if (end !== undefined)
          throw invalid(path, `line ${number}: something follows the end of the recording`);
        const value = parseLine(path, line, number);
        // A recorder that was killed leaves half a line; all before it counts.
        if (value === "cut off") return;
        if (value["end"] === true) end = value as unknown as RecordingEnd;
        else yield checkCall(path, value, number);
      }
    };
    return {
      header: header as unknown as RecordingHeader,
      calls: calls(),
      end: () => end,
      close: () => input.destroy(),
    };
  } catch (error) {
    input.destroy();
    throw error;
  }
}

type JsonObject = Readonly<Record<string, unknown>>;

interface Line {
  readonly text: string;
  /** Whether a line feed follows. */
  readonly isWhole: boolean;
}

async function* linesOf(
  input: AsyncIterable<Buffer>,
  path: string,
  largestLineBytes: number,
): AsyncGenerator<Line, undefined> {
  let rest: Buffer[] = [];
  let restBytes = 0;
  let number = 1;
  try {
    for await (const chunk of input) {
      let offset = 0;
      for (;;) {
        const feed = chunk.indexOf(0x0a, offset);
        const piece = chunk.subarray(offset, feed < 0 ? chunk.length : feed);
        restBytes += piece.length;
        if (restBytes > largestLineBytes)
          throw invalid(path, `line ${number}: longer than ${largestLineBytes} bytes`);
        rest.push(piece);
        if (feed < 0) break;
        yield { text: Buffer.concat(rest).toString("utf8"), isWhole: true };
        rest = [];
        restBytes = 0;
        number += 1;
        offset = feed + 1;
      }
    }
  } catch (error) {
    const failure = fileError("read recording", path, error);
    // A wrong name is the caller's fault, and is said in one line.
    if (failure.kind !== "internal") throw failure;
    throw new ShimError("invalid", `${failure.message}; name a file that "dockershim record" wrote`);
  }
  if (restBytes > 0) yield { text: Buffer.concat(rest).toString("utf8"), isWhole: false };
  return undefined;
}

function parseLine(path: string, { text, isWhole }: Line, number: number): JsonObject | "cut off" {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    if (!isWhole) return "cut off";
  }
  if (!isObject(value)) throw invalid(path, `line ${number}: not a JSON object`);
  return value;
}

function checkHeader(path: string, { format, version }: JsonObject): void {
  if (format !== recordingFormat) throw invalid(path, `line 1: not the header of a recording`);
  if (version === recordingVersion) return;
  throw new ShimError(
    "invalid",
    `read recording ${JSON.stringify(path)}: it has version ${JSON.stringify(version)}, this program reads version ` +
      `${recordingVersion}; use the dockershim that recorded it, or a newer one`,
  );
}

function checkCall(path: string, value: JsonObject, number: number): RecordedCall {
  const { at, ms, rpc, request, response, responses, error } = value;
  const isCall =
    isTime(at) &&
    isTime(ms) &&
    typeof rpc === "string" &&
    (request === undefined || isObject(request)) &&
    (response === undefined || isObject(response)) &&
    (responses === undefined || (Array.isArray(responses) && responses.every(isObject))) &&
    (error === undefined ||
      (isObject(error) && typeof error["code"] === "number" && typeof error["message"] === "string"));
  if (!isCall) throw invalid(path, `line ${number}: not a call of a recording`);
  return value as unknown as RecordedCall;
}

function isTime(value: unknown): boolean {
  return typeof value === "number" && value >= 0;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(path: string, reason: string): ShimError {
  return new ShimError(
    "invalid",
    `read recording ${JSON.stringify(path)}: ${reason}; record it again, or cut the file before that line`,
  );
}
