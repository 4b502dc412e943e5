import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseNameConflict, refusal, unreachable } from "../../../../src/shim/engine/http/errors.js";

const id = "3f2a".repeat(16);

describe("parseNameConflict()", () => {
  for (const [text, conflicting] of [
    [
      `Conflict. The container name "/k8s_POD_a_b_c_0" is already in use by container "${id}". You have to remove (or rename) that container to be able to reuse that name.`,
      id,
    ],
    [`Conflict. The name "/x" is already in use by container ${id}. You have to delete that container.`, id],
    [
      `Error response from daemon: Conflict. The container name "/x" is already in use by container "${id}".`,
      id,
    ],
    [`Conflict. The container name "/x" is already in use by something`, undefined],
    ["You cannot remove a running container", undefined],
  ] as const) {
    test(text.slice(0, 60), () => {
      assert.equal(parseNameConflict(text), conflicting);
    });
  }
});

describe("refusal()", () => {
  const body = (message: string): Buffer => Buffer.from(JSON.stringify({ message }));

  for (const [status, message, kind] of [
    [400, "invalid reference format", "invalid"],
    [400, "client version 1.51 is too new. Maximum supported API version is 1.41", "unavailable"],
    [400, "client version 1.41 is too old. Minimum supported API version is 1.44", "unavailable"],
    [401, "unauthorized", "denied"],
    [403, "forbidden", "denied"],
    [404, "No such container: x", "notFound"],
    [409, "Container x is not running", "precondition"],
    [500, "driver failed", "unknown"],
    [500, "Container 1e63 is not running: Exited (0) Less than a second ago", "precondition"],
    [500, "driver failed programming …: Bind for 0.0.0.0:3 failed: port is already allocated", "conflict"],
    [500, "listen tcp4 0.0.0.0:22: bind: address already in use", "conflict"],
    [
      500,
      "driver failed programming external connectivity on endpoint k8s_POD_a (5f): Error starting userland proxy: listen tcp4 0.0.0.0:22: bind: address already in use",
      "conflict",
    ],
    [
      500,
      "failed to set up container networking: driver failed programming external connectivity on endpoint k8s_POD_a (5f): failed to bind host port 0.0.0.0:22/tcp: address already in use",
      "conflict",
    ],
    // The words of a pod's author.
    [400, 'exec: "client version 1 is too old": executable file not found in $PATH', "invalid"],
    [500, 'error mounting "/x" to rootfs at "/port is already allocated": not a directory', "unknown"],
    [500, "mkdir /listen a b: bind: address already in use: not a directory", "unknown"],
    [501, "experimental only", "unsupported"],
    [503, "This node is not a swarm manager", "unavailable"],
    [302, "elsewhere", "unknown"],
  ] as const) {
    test(`${status} "${message}" is ${kind}, in the engine's words`, () => {
      const error = refusal(status, body(message));
      assert.deepEqual([error.kind, error.message, error.fields["status"]], [kind, message, status]);
    });
  }

  test("a name conflict has the conflicting container's id", () => {
    const error = refusal(
      409,
      body(`Conflict. The container name "/x" is already in use by container "${id}".`),
    );
    assert.deepEqual([error.kind, error.fields["conflictingId"]], ["conflict", id]);
  });

  for (const [message, missing] of [
    ["No such container: abc", "container"],
    ["No such image: abc:latest", "image"],
    ["no such image: nosuch:1: No such image: nosuch:1", "image"],
    ["No such exec instance: abc", "exec"],
    ["network abc not found", undefined],
    ["Could not find the file /x in container abc", undefined],
  ] as const) {
    test(`"${message}" says what is missing: ${missing}`, () => {
      assert.equal(refusal(404, body(message)).fields["missing"], missing);
    });
  }

  test("what is not Docker's form is passed on, empty bodies named by their status, long texts cut", () => {
    assert.equal(refusal(502, Buffer.from("<h1>Bad Gateway</h1>\n")).message, "<h1>Bad Gateway</h1>");
    assert.equal(refusal(500, Buffer.from("null")).message, "null");
    assert.equal(refusal(500, Buffer.alloc(0)).message, "the engine answered with HTTP status 500");
    assert.equal(refusal(500, body("x".repeat(50_000))).message.length, 4097);
  });
});

describe("unreachable()", () => {
  for (const [code, reason] of [
    ["ENOENT", "no such socket"],
    ["ECONNREFUSED", "connection refused"],
    ["EACCES", "permission denied"],
    ["ECONNRESET", "connection closed without an answer"],
    ["HPE_INVALID_CONSTANT", "the answer is not HTTP"],
    ["EWHATEVER", "as Node words it"],
  ] as const) {
    test(`${code} reads "${reason}"`, () => {
      const error = unreachable("unix:///run/x.sock", Object.assign(new Error("as Node words it"), { code }));
      assert.equal(error.kind, "unavailable");
      assert.equal(error.message, `cannot reach the Docker Engine at unix:///run/x.sock: ${reason}`);
    });
  }
});
