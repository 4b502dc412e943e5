import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";
import { ShimError } from "../../../../src/lib/errors.js";
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

  test("decodes requests into the shapes of domain/cri.ts", () => {
    // config (2) { envs (6) { key: "k", value: bytes that are not UTF-8 } }
    const { decodeRequest } = method("/runtime.v1.RuntimeService/CreateContainer");
    assert.deepEqual(Object.keys(decodeRequest(Buffer.alloc(0))), [
      "pod_sandbox_id",
      "config",
      "sandbox_config",
    ]);
    const environment = Buffer.concat([Buffer.from("0a016b", "hex"), Buffer.from("1202ff00", "hex")]);
    const config = Buffer.concat([Buffer.of(0x32, environment.length), environment]);
    const request = Buffer.concat([Buffer.of(0x12, config.length), config]);
    const decoded = decodeRequest(request) as {
      config: { envs: unknown[]; linux: unknown; metadata: unknown };
    };
    assert.deepEqual(decoded.config.envs, [{ key: "k", value: Buffer.of(0xff, 0x00) }]);
    assert.equal(decoded.config.linux, null);
  });

  for (const [name, bytes] of [
    ["a string that is not UTF-8", Buffer.of(0x0a, 2, 0xc3, 0x28)],
    ["a field without end", Buffer.of(0x12, 100)],
    ["an unknown wire type", Buffer.of(0x0f)],
  ] as const) {
    test(`refuses ${name} as invalid`, () => {
      assert.throws(
        () => method("/runtime.v1.RuntimeService/CreateContainer").decodeRequest(bytes),
        (error) =>
          error instanceof ShimError &&
          error.kind === "invalid" &&
          error.message.startsWith("decode request: "),
      );
    });
  }

  test("keeps 64-bit numbers exact", () => {
    const created = "9007199254740993"; // 2^53 + 1
    const bytes = api.encodeItem.sandbox({ id: "s", created_at: created });
    const file = new URL("../../../../proto/runtime/v1/api.proto", import.meta.url).pathname;
    const types = loadSync(file, { keepCase: true, longs: String });
    const type = types["runtime.v1.PodSandbox"] as MessageTypeDefinition<object, { created_at: string }>;
    assert.equal(type.deserialize(bytes).created_at, created);
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
