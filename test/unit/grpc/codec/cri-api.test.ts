import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { concatenateList } from "../../../../src/shim/grpc/codec/list-bytes.js";
import { api } from "../test-server.js";

function method(path: string) {
  const found = api.methods.find((candidate) => candidate.path === path);
  assert.ok(found !== undefined, path);
  return found;
}

describe("criApi()", () => {
  test("knows both services of both versions", () => {
    const services = new Set(api.methods.map(({ path }) => path.slice(0, path.lastIndexOf("/"))));
    assert.deepEqual(
      [...services].sort(),
      ["v1", "v1alpha2"].flatMap((v) => [`/runtime.${v}.ImageService`, `/runtime.${v}.RuntimeService`]),
    );
    assert.equal(method("/runtime.v1.RuntimeService/GetContainerEvents").responseStream, true);
    assert.equal(method("/runtime.v1.RuntimeService/Version").responseStream, false);
    assert.equal(
      api.methods.find(({ path }) => path === "/runtime.v1alpha2.RuntimeService/GetContainerEvents"),
      undefined,
    );
  });
});

describe("concatenateList()", () => {
  test("is the encoding of a list of these items", () => {
    const { encodeResponse } = method("/runtime.v1.RuntimeService/ListContainers");
    const container = fc.record({ id: fc.string({ maxLength: 400 }), image_ref: fc.string() });
    fc.assert(
      fc.property(fc.array(container), (containers) => {
        const list = concatenateList(containers.map((item) => api.encodeItem.container(item)));
        assert.deepEqual(list, Buffer.from(encodeResponse({ containers })));
      }),
    );
    const large = { id: "x".repeat(3_000_000) };
    assert.deepEqual(
      concatenateList([api.encodeItem.container(large)]),
      Buffer.from(encodeResponse({ containers: [large] })),
    );
  });
});
