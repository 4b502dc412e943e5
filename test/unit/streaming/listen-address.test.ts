import assert from "node:assert/strict";
import { test } from "node:test";
import { urlBase } from "../../../src/shim/streaming/listen-address.js";

for (const [host, expected] of [
  ["127.0.0.1", "http://127.0.0.1:80"],
  ["::1", "http://[::1]:80"],
  ["fe80::1%eth0", "http://[fe80::1%25eth0]:80"],
  ["192.0.2.7", "http://192.0.2.7:80"],
  ["0.0.0.0", "http://127.0.0.1:80"],
  ["::", "http://127.0.0.1:80"],
  ["0:0:0:0:0:0:0:0", "http://127.0.0.1:80"],
] as const) {
  test(`urlBase() of a server on ${host} can be dialled`, () =>
    assert.equal(urlBase({ host, port: 80 }, "http"), expected));
}
