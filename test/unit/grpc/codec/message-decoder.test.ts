import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { api } from "../test-server.js";

const wrong = Buffer.of(0xc3, 0x28);

/** Field `number`, length-delimited. */
function part(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of((number << 3) | 2, content.length), content]);
}

describe("a string that is not UTF-8 is refused by the path of its field", () => {
  const joined = (...parts: readonly Buffer[]): Buffer => Buffer.concat(parts);
  const metadata = part(1, Buffer.from("web"));
  const mount = part(7, part(2, Buffer.from("/host")));
  const searches = joined(part(1, Buffer.from("1.1.1.1")), part(2, Buffer.from("a")), part(2, wrong));
  const numbers = Buffer.of(0x78, 0xff, 0x01, 0x7d, 1, 2, 3, 4);
  const cases: Readonly<Record<string, readonly [rpc: string, request: Buffer]>> = {
    container_id: ["StartContainer", part(1, wrong)],
    "config.metadata.namespace": ["RunPodSandbox", part(1, part(1, joined(metadata, part(3, wrong))))],
    "config.dns_config.searches[1]": ["RunPodSandbox", part(1, part(4, searches))],
    "config.mounts[1].host_path": ["CreateContainer", part(2, joined(mount, part(7, part(2, wrong))))],
    "config.labels": ["RunPodSandbox", part(1, part(6, part(1, wrong)))],
    // Numbers of all kinds before it, and an unknown field.
    image: ["PullImage", joined(numbers, part(1, part(1, wrong)))],
  };
  for (const [field, [rpc, request]] of Object.entries(cases)) {
    for (const version of ["v1", "v1alpha2"]) {
      test(`${field} of ${rpc}, ${version}`, () => {
        const method = api.methods.find(
          ({ name, path }) => name === rpc && path.startsWith(`/runtime.${version}.`),
        );
        assert.throws(
          () => method?.decodeRequest(request),
          (error) =>
            error instanceof ShimError &&
            error.kind === "invalid" &&
            error.message.startsWith(`decode request: ${field}`) &&
            error.message.endsWith(": is not valid UTF-8"),
        );
      });
    }
  }
});

describe("bytes are refused by the path of the field", () => {
  const two = Buffer.of(1);
  const cases: Readonly<Record<string, Buffer>> = {
    "the message: ends within a number": Buffer.of(0x0a),
    "the message: ends within a field": Buffer.of(0x0a, 5, 0x61),
    "the message: has a field of wire type 7": Buffer.of(0x7f),
    "the message: has a field of wire type 3": Buffer.of(0x7b),
    "the message: has a field with the number 0": Buffer.of(0, 0),
    "config: has wire type 0 in place of 2": Buffer.of(0x08, 1),
    "config.metadata.attempt: has wire type 2 in place of 0": part(1, part(1, part(4, Buffer.from("1")))),
    "config.port_mappings[0].host_port: has wire type 2 in place of 0": part(1, part(5, part(3, two))),
    "config.labels: has wire type 0 in place of 2": part(1, part(6, Buffer.of(0x08, 1))),
    "config.metadata: ends within a field": part(1, part(1, Buffer.of(0x0a, 9))),
  };
  const run = api.methods.find(({ path }) => path === "/runtime.v1.RuntimeService/RunPodSandbox");
  for (const [message, bytes] of Object.entries(cases)) {
    test(message, () => {
      assert.throws(
        () => run?.decodeRequest(bytes),
        (error) =>
          error instanceof ShimError &&
          error.kind === "invalid" &&
          error.message === `decode request: ${message}`,
      );
    });
  }

  test("numbers of a list may be packed or not", () => {
    const forward = api.methods.find(({ path }) => path === "/runtime.v1.RuntimeService/PortForward");
    const id = part(1, Buffer.from("s"));
    for (const ports of [part(2, Buffer.of(80, 81)), Buffer.of(0x10, 80, 0x10, 81)]) {
      assert.deepEqual(forward?.decodeRequest(Buffer.concat([id, ports])), {
        pod_sandbox_id: "s",
        port: [80, 81],
      });
    }
  });
});
