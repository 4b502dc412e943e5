/**
 * Entries of Docker's json-file log, turned into lines of the CRI's log format:
 *
 *     {"log":"text\n","stream":"stdout","attrs":{…},"time":"2026-01-02T15:04:05.123456789Z"}
 *     2026-01-02T15:04:05.123456789Z stdout F text
 *
 * Docker cuts lines at 16 KiB. A piece that does not end its line has no `\n`, and becomes a line with the
 * tag P.
 */

/** The result of `formatEntries`, reused from call to call, as there are many. */
export interface Formatted {
  /** Processed bytes of the input: up to behind a newline, or 0. */
  consumed: number;
  /** Bytes of the output. */
  produced: number;
  /** Lines of the output. */
  lines: number;
  /** Lines of the input that are not entries, as a killed engine leaves them. They are left out. */
  damaged: number;
}

export function nothingFormatted(): Formatted {
  return { consumed: 0, produced: 0, lines: 0, damaged: 0 };
}

const newline = 0x0a;
const space = 0x20;
const quote = 0x22;
const backslash = 0x5c;

const entryStart = Buffer.from('{"log":"');
const streamKey = Buffer.from(',"stream":"std');
const timeKey = Buffer.from('"time":"');
/** An empty line on stdout without a fraction of a second is the shortest entry. */
const shortestEntry = 60;
/** A time as `2026-01-02T15:04:05.123456789+00:00` is the longest. */
const longestTime = 35;
/** From this length on native copies are faster than a loop. */
const longText = 192;

/**
 * Formats the whole entries at the begin of `input`, up to `maximumLines`, into `output`, which must be as
 * large as the input: a line is never longer than its entry. The fast path is for entries as Docker writes
 * them; other JSON goes through a parser.
 */
export function formatEntries(input: Buffer, output: Buffer, maximumLines: number, result: Formatted): void {
  let start = 0;
  let produced = 0;
  let lines = 0;
  let damaged = 0;
  while (lines < maximumLines) {
    const end = input.indexOf(newline, start);
    if (end < 0) break;
    const after = formatFast(input, start, end, output, produced);
    if (after > 0) {
      produced = after;
      lines += 1;
    } else {
      const line = formatSlowly(input.subarray(start, end));
      if (line === undefined) damaged += 1;
      else {
        line.copy(output, produced);
        produced += line.length;
        lines += 1;
      }
    }
    start = end + 1;
  }
  result.consumed = start;
  result.produced = produced;
  result.lines = lines;
  result.damaged = damaged;
}

/** The end of the output after the entry; 0 when it is not of the usual form. */
function formatFast(input: Buffer, start: number, end: number, output: Buffer, begin: number): number {
  if (end - start < shortestEntry || !matches(input, start, entryStart)) return 0;
  // From the end: `"time":"…"}`
  if (input[end - 1] !== 0x7d || input[end - 2] !== quote) return 0;
  let timeStart = end - 3;
  const earliest = end - 3 - longestTime;
  while (timeStart > earliest && input[timeStart] !== quote) timeStart -= 1;
  timeStart += 1;
  const keyStart = timeStart - timeKey.length;
  if (!matches(input, keyStart, timeKey)) return 0;

  let at = begin;
  for (let index = timeStart; index < end - 2; index += 1) output[at++] = input[index] as number;
  output[at++] = space;
  const streamAt = at;
  at += 6;
  output[at++] = space;
  const tagAt = at++;
  output[at++] = space;

  let from = start + entryStart.length;
  let isWhole = false;
  for (;;) {
    if (keyStart - from > longText) {
      // Up to the next backslash there is only text, or the whole rest of the entry.
      const next = input.indexOf(backslash, from);
      const textEnd = next >= 0 && next < keyStart ? next : closingQuote(input, from, keyStart);
      at += input.copy(output, at, from, textEnd);
      from = textEnd;
    }
    const byte = input[from] as number;
    if (byte === quote) break;
    if (byte !== backslash) {
      output[at++] = byte;
      from += 1;
      continue;
    }
    const escaped = input[from + 1] as number;
    if (escaped === 0x6e) {
      // The end of the line is the end of the entry. A newline anywhere else is for the parser.
      if (input[from + 2] !== quote) return 0;
      isWhole = true;
      from += 2;
    } else if (escaped === 0x75) {
      const code = hexadecimal(input, from + 2);
      if (code < 0 || (code >= 0xd800 && code < 0xe000) || code === newline) return 0;
      at = writeUtf8(output, at, code);
      from += 6;
    } else {
      const plain = unescaped(escaped);
      if (plain < 0) return 0;
      output[at++] = plain;
      from += 2;
    }
    if (from >= keyStart) return 0;
  }
  // `"` is at `from`: `,"stream":"stdout"` or `…stderr"`, then the time, perhaps after attributes.
  from += 1;
  if (!matches(input, from, streamKey)) return 0;
  from += streamKey.length;
  const letter = input[from];
  if (letter !== 0x6f && letter !== 0x65) return 0;
  output[streamAt] = 0x73;
  output[streamAt + 1] = 0x74;
  output[streamAt + 2] = 0x64;
  output[streamAt + 3] = letter;
  output[streamAt + 4] = input[from + 1] as number;
  output[streamAt + 5] = input[from + 2] as number;
  if (input[from + 3] !== quote || input[from + 4] !== 0x2c || from + 5 > keyStart) return 0;
  output[tagAt] = isWhole ? 0x46 : 0x50;
  output[at++] = newline;
  return at;
}

/** The end of text without escapes: its quote, as text contains no plain quotes. */
function closingQuote(input: Buffer, from: number, limit: number): number {
  const end = input.indexOf(quote, from);
  return end < 0 || end > limit ? limit : end;
}

function matches(input: Buffer, at: number, expected: Buffer): boolean {
  for (let index = 0; index < expected.length; index += 1) {
    if (input[at + index] !== expected[index]) return false;
  }
  return true;
}

/** Value of four hexadecimal digits, or negative. */
function hexadecimal(input: Buffer, at: number): number {
  let code = 0;
  for (let index = at; index < at + 4; index += 1) {
    const byte = input[index] as number;
    const digit =
      byte >= 0x30 && byte <= 0x39 ? byte - 0x30 : (byte | 0x20) >= 0x61 ? (byte | 0x20) - 0x57 : 16;
    if (digit > 15) return -1;
    code = code * 16 + digit;
  }
  return code;
}

function unescaped(byte: number): number {
  switch (byte) {
    case quote:
    case backslash:
    case 0x2f:
      return byte;
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    default:
      return -1;
  }
}

function writeUtf8(output: Buffer, at: number, code: number): number {
  if (code < 0x80) {
    output[at] = code;
    return at + 1;
  }
  if (code < 0x800) {
    output[at] = 0xc0 | (code >> 6);
    output[at + 1] = 0x80 | (code & 0x3f);
    return at + 2;
  }
  output[at] = 0xe0 | (code >> 12);
  output[at + 1] = 0x80 | ((code >> 6) & 0x3f);
  output[at + 2] = 0x80 | (code & 0x3f);
  return at + 3;
}

/** Formats any entry with a JSON parser. Undefined when it is not an entry. */
function formatSlowly(line: Buffer): Buffer | undefined {
  // After a crash of the engine the next entry may be behind an incomplete one.
  const last = line.lastIndexOf(entryStart);
  const entry = parseEntry(line) ?? (last > 0 ? parseEntry(line.subarray(last)) : undefined);
  if (entry === undefined) return undefined;
  const { log = "", stream, time } = entry;
  const isWhole = log.endsWith("\n");
  const text = isWhole ? log.slice(0, -1) : log;
  // Docker ends entries at newlines. After another newline the rest would not be a line of this format.
  const content = text.replaceAll("\n", " ");
  const formatted = Buffer.from(`${time} ${stream} ${isWhole ? "F" : "P"} ${content}\n`);
  return formatted.length <= line.length + 1 ? formatted : undefined;
}

function parseEntry(line: Buffer): { log?: string; stream: string; time: string } | undefined {
  try {
    const parsed = JSON.parse(line.toString("utf8")) as unknown;
    if (typeof parsed !== "object" || parsed === null) return undefined;
    const { log, stream, time } = parsed as Record<string, unknown>;
    if (log !== undefined && typeof log !== "string") return undefined;
    if (stream !== "stdout" && stream !== "stderr") return undefined;
    if (typeof time !== "string" || time === "" || /\s/.test(time)) return undefined;
    return { ...(log === undefined ? {} : { log }), stream, time };
  } catch {
    return undefined;
  }
}
