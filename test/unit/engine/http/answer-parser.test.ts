import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { AnswerParser, notHttpCode } from "../../../../src/shim/engine/http/answer-parser.js";

const ok = "HTTP/1.1 200 OK\r\n";

interface Parsed {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly isDone: boolean;
  readonly keepsConnection: boolean;
  /** Bytes behind the answer. */
  readonly rest: number;
}

/** `text` in pieces of `size` bytes; then the connection ends, with `isClosed`. */
function parse(text: string, { method = "GET", size = Infinity, isClosed = false } = {}): Parsed {
  let status: number | undefined;
  let headers: Readonly<Record<string, string>> = {};
  let body = "";
  let ends = 0;
  const parser = new AnswerParser(method, {
    head: (head) => ({ status, headers } = head),
    data: (chunk) => (body += chunk.toString("latin1")),
    end: () => (ends += 1),
  });
  const bytes = Buffer.from(text, "latin1");
  let position = 0;
  while (position < bytes.length && !parser.isDone)
    position += parser.push(bytes.subarray(position, Math.min(bytes.length, position + size)));
  if (isClosed) assert.equal(parser.endOfConnection(), parser.isDone);
  assert.equal(ends, parser.isDone ? 1 : 0);
  const { isDone, keepsConnection } = parser;
  return { status, headers: { ...headers }, body, isDone, keepsConnection, rest: bytes.length - position };
}

describe("AnswerParser", () => {
  const whole: readonly (readonly [
    what: string,
    text: string,
    expected: Partial<Parsed>,
    method?: string,
  ])[] = [
    ["a length", `${ok}Content-Length: 5\r\n\r\nhello`, { body: "hello", keepsConnection: true }],
    ["no body", `${ok}Content-Length: 0\r\n\r\n`, { body: "", keepsConnection: true }],
    [
      "chunks, with extensions and trailers",
      `${ok}Transfer-Encoding: chunked\r\n\r\n5;a="b"\r\nhello\r\nA\r\n, world...\r\n0\r\nX: y\r\n\r\n`,
      { body: "hello, world...", keepsConnection: true },
    ],
    ["HEAD", `${ok}Content-Length: 5\r\n\r\n`, { body: "" }, "HEAD"],
    ["204", "HTTP/1.1 204 No Content\r\n\r\n", { status: 204, keepsConnection: true }],
    [
      "304 with the length of what was not sent",
      "HTTP/1.1 304\r\nContent-Length: 7\r\n\r\n",
      { status: 304 },
    ],
    ["101", "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n", { status: 101, headers: { upgrade: "tcp" } }],
    [
      "an answer behind informational ones",
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n${ok}Content-Length: 1\r\n\r\nx`,
      { status: 200, headers: { "content-length": "1" }, body: "x" },
    ],
    [
      "the end of the connection kept for no other request",
      `${ok}Connection: close\r\nContent-Length: 1\r\n\r\nx`,
      { body: "x", keepsConnection: false },
    ],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", { body: "x", keepsConnection: false }],
    [
      "headers with any case, spaces and repetitions",
      `${ok}X-A:1\r\nx-a: \t2 \r\ncontent-LENGTH: 0\r\n__proto__: z\r\n\r\n`,
      {
        headers: JSON.parse('{"x-a":"1, 2","content-length":"0","__proto__":"z"}') as Record<string, string>,
      },
    ],
  ];
  for (const [what, text, expected, method] of whole) {
    test(`reads an answer with ${what}, however it is cut`, () => {
      for (const size of [1, 2, 3, 7, 50, Infinity]) {
        const parsed = parse(text, { size, ...(method === undefined ? {} : { method }) });
        assert.deepEqual({ ...parsed, ...expected, isDone: true, rest: 0 }, parsed, `pieces of ${size}`);
      }
    });
  }

  test("a body without a length ends with its connection", () => {
    const text = `${ok}\r\nall of it`;
    const expected = { body: "all of it", keepsConnection: false };
    assert.deepEqual({ ...parse(text), ...expected, isDone: false }, parse(text));
    assert.deepEqual(
      { ...parse(text, { isClosed: true }), ...expected, isDone: true },
      parse(text, { isClosed: true }),
    );
  });

  for (const text of [
    `${ok}Content-Length: 5\r\n\r\nhell`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`,
    ok,
    "",
  ])
    test(`${JSON.stringify(text)} and the end of the connection is no whole answer`, () => {
      assert.equal(parse(text, { isClosed: true }).isDone, false);
    });

  test("bytes behind the answer are left", () => {
    assert.equal(parse(`${ok}Content-Length: 1\r\n\r\nxHTTP`).rest, 4);
    assert.equal(parse("HTTP/1.1 101 UPGRADED\r\n\r\n\x01output").rest, 7);
  });

  for (const text of [
    "SSH-2.0-OpenSSH\r\n",
    "H2",
    "HTTP/2 200\r\n\r\n",
    "HTTP/1.1 20\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    `${ok}no colon\r\n\r\n`,
    `${ok}X-A: 1\r\n folded\r\n\r\n`,
    `${ok}X A: 1\r\n\r\n`,
    `${ok}Content-Length: -1\r\n\r\n`,
    `${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx`,
    `${ok}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
    `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n${"0".repeat(5000)}`,
    `${ok}X-A: ${"x".repeat(20_000)}`,
  ])
    test(`${JSON.stringify(text.slice(0, 80))} is refused`, () => {
      for (const size of [1, 10, Infinity]) assert.throws(() => parse(text, { size }), { code: notHttpCode });
    });

  test("any bytes are an answer, the begin of one, or refused", () => {
    const part = fc.constantFrom(
      ok,
      "Content-Length: 3\r\n",
      "Transfer-Encoding: chunked\r\n",
      "\r\n",
      "3\r\n",
      "abc",
      "0",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(part, fc.string()), { maxLength: 8 }), (parts) => {
        try {
          parse(parts.join(""), { size: 3, isClosed: true });
        } catch (error) {
          assert.equal((error as { code?: string }).code, notHttpCode);
        }
      }),
    );
  });
});
