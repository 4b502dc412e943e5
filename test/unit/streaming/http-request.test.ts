import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  listOf,
  negotiateWebSocket,
  parseTarget,
  urlBase,
  wantedTransport,
} from "../../../src/shim/streaming/http-request.js";

test("urlBase() has an address that clients can connect to", () => {
  for (const [host, expected] of [
    ["127.0.0.1", "http://127.0.0.1:80"],
    ["::1", "http://[::1]:80"],
    ["fe80::1%eth0", "http://[fe80::1%25eth0]:80"],
    ["192.0.2.7", "http://192.0.2.7:80"],
    ["0.0.0.0", "http://127.0.0.1:80"],
    ["::", "http://127.0.0.1:80"],
    ["0:0:0:0:0:0:0:0", "http://127.0.0.1:80"],
  ] as const) {
    assert.equal(urlBase({ host, port: 80 }, "http"), expected);
  }
});

describe("parseTarget()", () => {
  for (const [url, expected] of [
    ["/exec/abc", { kind: "exec", token: "abc" }],
    ["/attach/a-b_c", { kind: "attach", token: "a-b_c" }],
    ["/portforward/abc?port=80", { kind: "portForward", token: "abc" }],
    ["http://127.0.0.1:1/exec/abc", { kind: "exec", token: "abc" }],
    ["/Exec/abc", undefined],
    ["/exec/", undefined],
    ["/exec/a/b", undefined],
    ["/cri/exec/abc", undefined],
    [`/exec/${"a".repeat(129)}`, undefined],
    ["/exec/%61", undefined],
    ["*", undefined],
    [undefined, undefined],
  ] as const) {
    test(`reads ${String(url)}`, () => assert.deepEqual(parseTarget(url), expected));
  }
});

describe("wantedTransport()", () => {
  for (const [upgrade, expected] of [
    ["SPDY/3.1", "spdy"],
    ["spdy/3.1", "spdy"],
    ["WebSocket", "websocket"],
    ["h2c, SPDY/3.1", "spdy"],
    ["SPDY/3", undefined],
    [undefined, undefined],
  ] as const) {
    test(`reads ${String(upgrade)}`, () =>
      assert.equal(wantedTransport(upgrade === undefined ? {} : { upgrade }), expected));
  }
});

describe("listOf()", () => {
  test("joins lines and drops what is empty", () =>
    assert.deepEqual(listOf(["a, b", ",c ,"]), ["a", "b", "c"]));
});

describe("negotiateWebSocket()", () => {
  const negotiate = (value: string | undefined, supported: readonly string[]): unknown =>
    negotiateWebSocket(value === undefined ? {} : { "sec-websocket-protocol": value }, supported);

  test("prefers the client's order", () => assert.equal(negotiate("x, v3, v4", ["v4", "v3"]), "v3"));
  test("is 403 without a common protocol", () =>
    assert.equal((negotiate("x", ["v4", ""]) as { status: number }).status, 403));
});
