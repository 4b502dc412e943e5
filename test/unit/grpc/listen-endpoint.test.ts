import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { ShimError } from "../../../src/lib/errors.js";
import { formatEndpoint, parseEndpoint } from "../../../src/shim/grpc/listen-endpoint.js";

describe("parseEndpoint()", () => {
  const accepted = {
    "unix:///var/run/dockershim.sock": { kind: "unix", path: "/var/run/dockershim.sock" },
    "/var/run/dockershim.sock": { kind: "unix", path: "/var/run/dockershim.sock" },
    "unix:///with space/%41.sock": { kind: "unix", path: "/with space/%41.sock" },
    "fd://": { kind: "fd" },
  };
  for (const [text, endpoint] of Object.entries(accepted)) {
    test(`accepts ${text}`, () => {
      assert.deepEqual(parseEndpoint(text), endpoint);
      assert.deepEqual(parseEndpoint(formatEndpoint(parseEndpoint(text))), endpoint);
    });
  }

  const refused: readonly (readonly [text: string, reason: RegExp])[] = [
    ["", /it is empty/],
    ["run/x.sock", /neither a scheme nor an absolute path/],
    ["./x.sock", /neither a scheme nor an absolute path/],
    ["unix:/x.sock", /no scheme that is known/],
    ["localhost:8080", /no scheme that is known/],
    ["unix://run/x.sock", /the path must be absolute/],
    ["unix://", /the path must be absolute/],
    ["unix://@abstract", /the path must be absolute/],
    ["unix:///", /names a directory/],
    ["unix:///run/", /names a directory/],
    ["unix:///run/..", /names a directory/],
    ["unix:///run/x\0.sock", /zero byte/],
    ["fd://3", /named descriptors are not supported/],
    ["tcp://127.0.0.1:8080", /a TCP port would give the engine to everyone/],
    ["npipe:////./pipe/x", /Windows only/],
    ["http://x", /unknown scheme "http"/],
    ["Unix:///x.sock", /unknown scheme "Unix"/],
  ];
  for (const [text, reason] of refused) {
    test(`refuses ${JSON.stringify(text)} in one line that quotes it`, () => {
      assert.throws(
        () => parseEndpoint(text),
        (error) => {
          assert.ok(error instanceof ShimError);
          assert.equal(error.kind, "invalid");
          assert.match(error.message, reason);
          assert.ok(error.message.startsWith(`endpoint ${JSON.stringify(text)}: `));
          assert.doesNotMatch(error.message, /\n/);
          return true;
        },
      );
    });
  }
});
