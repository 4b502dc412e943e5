import assert from "node:assert/strict";
import { test } from "node:test";
import {
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

test("parseTarget() takes the paths of sessions alone", () => {
  for (const [url, kind, token] of [
    ["/exec/abc", "exec", "abc"],
    ["/attach/a-b_c", "attach", "a-b_c"],
    ["/portforward/abc?port=80", "portForward", "abc"],
    ["http://127.0.0.1:1/exec/abc", "exec", "abc"],
  ]) {
    assert.deepEqual(parseTarget(url), { kind, token }, url);
  }
  const long = `/exec/${"a".repeat(129)}`;
  for (const url of ["/Exec/abc", "/exec/", "/exec/a/b", "/cri/exec/abc", long, "/exec/%61", "*", undefined])
    assert.equal(parseTarget(url), undefined, url);
});

test("wantedTransport() reads the upgrade in any case, also of a list", () => {
  for (const [upgrade, expected] of [
    ["spdy/3.1", "spdy"],
    ["WebSocket", "websocket"],
    ["h2c, SPDY/3.1", "spdy"],
    ["SPDY/3", undefined],
  ] as const) {
    assert.equal(wantedTransport({ upgrade }), expected, upgrade);
  }
  assert.equal(wantedTransport({}), undefined);
});

test("negotiateWebSocket() prefers the client's order, and is 403 without a common protocol", () => {
  const negotiate = (value: string, supported: readonly string[]): unknown =>
    negotiateWebSocket({ "sec-websocket-protocol": value }, supported);
  assert.equal(negotiate("x, v3,, v4", ["v4", "v3"]), "v3");
  assert.equal((negotiate("x", ["v4", ""]) as { status: number }).status, 403);
});
