import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { notHttpCode } from "../../../../src/shim/engine/http/answer-parser.js";
import { parseNameConflict, refusal, unreachable } from "../../../../src/shim/engine/http/errors.js";

const id = "3f2a".repeat(16);

describe("parseNameConflict()", () => {
  for (const [text, conflicting] of [
    [`Conflict. The container name "/k8s_a_b_c_0" is already in use by container "${id}". You have to`, id],
    [`Conflict. The name "/x" is already in use by container ${id}. You have to delete that container.`, id],
    [`Error response from daemon: Conflict. The name "/x" is already in use by container "${id}".`, id],
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

  /** By what they become, as Docker 20.10 to 28.5 say them; some with the words of a pod's author. */
  const refusals: Readonly<Record<string, readonly string[]>> = {
    invalid: [
      "400 invalid reference format",
      "500 unable to find user nouser: no matching entries in passwd file",
      "500 Unable to find group nogroup: no matching entries in group file",
      "500 failed to create shim task: OCI runtime create failed: runc create failed: string NOPE is not a valid action for seccomp: unknown",
      '400 exec: "CDI device injection failed: ": executable file not found in $PATH',
      '400 exec: "client version 1 is too old": executable file not found in $PATH',
    ],
    unavailable: [
      "400 client version 1.51 is too new. Maximum supported API version is 1.41",
      "400 client version 1.41 is too old. Minimum supported API version is 1.44",
      "500 transport is closing: unavailable",
      "500 Unavailable: error reading from server: connection reset by peer",
      "503 This node is not a swarm manager",
    ],
    denied: ["401 unauthorized", "403 forbidden"],
    notFound: ["404 No such container: x"],
    precondition: [
      "409 Container x is not running",
      "500 Container 1e63 is not running: Exited (0) Less than a second ago",
      "500 CDI device injection failed: unresolvable CDI devices v.com/gpu=9",
      '500 could not select device driver "cdi" with capabilities: []',
      '500 error gathering device information while adding custom device "/dev/nope": no such file or directory',
      "500 error while creating mount source path '/mnt/a': mkdir /mnt/a: read-only file system",
      "500 error while mounting volume '/x/_data': failed to mount local volume: no such device",
      "500 failed to initialize logging driver: journald is not enabled on this host",
      "500 failed to create task for container: failed to initialize logging driver: gelf: cannot connect to GELF endpoint: 127.0.0.1:9 dial tcp 127.0.0.1:9: connect: connection refused",
      `500 cannot join PID of a non running container: ${id}: No such container: ${id}`,
      `500 can't join IPC of container ${id}: container ${id} is not running`,
      `500 joining network namespace of container: No such container: ${id}`,
      `500 failed to join PID namespace: container ${id} is not running`,
      `400 failed to join IPC namespace: No such container: ${id}`,
      `500 Cannot update container ${id}: runc did not terminate successfully: exit status 1: container not running\n: unknown`,
      `500 Cannot update container ${id}: cannot update a stopped container`,
      `500 Cannot update container ${id}: cannot update a deleted process: unknown`,
    ],
    unknown: [
      "500 driver failed",
      '500 OCI runtime create failed: exec: "x: no space left on device": permission',
      '500 error mounting "/x" to rootfs at "/Unavailable: ": text: unavailable"',
      '500 error mounting "/x" to rootfs at "/port is already allocated": not a directory',
      "500 mkdir /listen a b: bind: address already in use: not a directory",
      "302 elsewhere",
    ],
    conflict: [
      "500 driver failed programming …: Bind for 0.0.0.0:3 failed: port is already allocated",
      "500 listen tcp4 0.0.0.0:22: bind: address already in use",
      "500 driver failed programming external connectivity on endpoint k8s_POD_a (5f): Error starting userland proxy: listen tcp4 0.0.0.0:22: bind: address already in use",
      "500 failed to set up container networking: driver failed programming external connectivity on endpoint k8s_POD_a (5f): failed to bind host port 0.0.0.0:22/tcp: address already in use",
    ],
    exhausted: [
      "500 no available IPv4 addresses on this network's address pools: bridge (6d13)",
      "500 failed to set up container networking: no available IPv4 addresses on this network's address pools: bridge (6d13)",
      "500 mkdir /var/lib/docker/overlay2/x: no space left on device",
      "500 failed to create shim task: write /run/x: disk quota exceeded: unknown",
      "500 failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?)",
    ],
    unsupported: ["501 experimental only"],
  };
  for (const [kind, texts] of Object.entries(refusals)) {
    for (const text of texts) {
      test(`${text} is ${kind}, in the engine's words`, () => {
        const [status, message] = [Number(text.slice(0, 3)), text.slice(4)];
        const error = refusal(status, body(message));
        assert.deepEqual([error.kind, error.message, error.fields["status"]], [kind, message, status]);
      });
    }
  }

  test("a name conflict has the conflicting container's id", () => {
    const text = `Conflict. The container name "/x" is already in use by container "${id}".`;
    const error = refusal(409, body(text));
    assert.deepEqual([error.kind, error.fields["conflictingId"]], ["conflict", id]);
  });

  for (const [message, missing] of [
    ["No such container: abc", "container"],
    ["No such image: abc:latest", "image"],
    ["no such image: nosuch:1: No such image: nosuch:1", "image"],
    ["No such exec instance: abc", "exec"],
    ["network abc not found", "network"],
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
    [notHttpCode, "the answer is not HTTP"],
    ["EWHATEVER", "as Node words it"],
  ] as const) {
    test(`${code} reads "${reason}"`, () => {
      const error = unreachable("unix:///run/x.sock", Object.assign(new Error("as Node words it"), { code }));
      assert.equal(error.kind, "unavailable");
      assert.equal(error.message, `cannot reach the Docker Engine at unix:///run/x.sock: ${reason}`);
    });
  }
});
