import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { criApi } from "../../../../src/shim/grpc/codec/cri-api.js";
import { UnknownFields } from "../../../../src/shim/grpc/codec/unknown-fields.js";
import type { UnknownFieldSeen } from "../../../../src/shim/ports/observer.js";
import { recordingLog } from "../../../fakes/recording-log.js";

/** Field `number`, length-delimited; numbers above 15 need two bytes. */
function part(number: number, content: Buffer): Buffer {
  const tag = number * 8 + 2;
  const head = tag < 128 ? [tag] : [(tag % 128) + 128, Math.floor(tag / 128)];
  return Buffer.concat([Buffer.of(...head, content.length), content]);
}

function decoder(): {
  decode: (rpc: string, bytes: Buffer, version?: string) => object;
  seen: UnknownFieldSeen[];
  log: ReturnType<typeof recordingLog>;
} {
  const seen: UnknownFieldSeen[] = [];
  const log = recordingLog();
  const unknownFields = new UnknownFields(log, { unknownFieldSeen: (field) => void seen.push(field) });
  const { methods } = criApi(unknownFields);
  return {
    seen,
    log,
    decode: (rpc, bytes, version = "v1") => {
      const method = methods.find(
        ({ name, path }) => name === rpc && path.startsWith(`/runtime.${version}.`),
      );
      assert.ok(method);
      return method.decodeRequest(bytes);
    },
  };
}

const newer = (number: number): Buffer => part(number, Buffer.from("x"));

describe("fields of requests that proto/ does not know", () => {
  test("are counted at each request and told once, and the rest of the request is read", () => {
    const { decode, seen, log } = decoder();
    const request = Buffer.concat([part(1, Buffer.from("abc")), newer(99), newer(99)]);
    for (const version of ["v1", "v1", "v1alpha2"]) {
      const { container_id } = decode("StartContainer", request, version) as { container_id?: string };
      assert.equal(container_id, "abc");
    }
    const field = { rpc: "StartContainer", message: "StartContainerRequest", field: "99" };
    assert.deepEqual(seen, [field, field, field]);
    assert.deepEqual(log.lines, [
      { level: "info", message: "requests have an unknown field, ignored", fields: { ...field, field: 99 } },
    ]);
  });

  test("are found in messages of messages, by the type of the message, also in lists", () => {
    const { decode, seen } = decoder();
    const mount = part(7, newer(200));
    const metadata = part(1, newer(201));
    decode("CreateContainer", part(2, Buffer.concat([metadata, mount, mount])));
    assert.deepEqual(seen, [
      { rpc: "CreateContainer", message: "ContainerMetadata", field: "201" },
      { rpc: "CreateContainer", message: "Mount", field: "200" },
    ]);
  });

  test("are told apart up to a hundred", () => {
    const { decode, seen, log } = decoder();
    for (let number = 100; number < 350; number += 1) decode("StartContainer", newer(number));
    assert.equal(new Set(seen.map((field) => JSON.stringify(field))).size, 101);
    assert.deepEqual(seen.at(-1), { rpc: "other", message: "other", field: "other" });
    assert.equal(seen.length, 250);
    assert.equal(log.lines.length, 100);
    // One that has been told before is still itself.
    decode("StartContainer", newer(100));
    assert.equal(seen.at(-1)?.field, "100");
  });
});
