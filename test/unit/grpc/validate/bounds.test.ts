import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { checkBounds, maps } from "../../../../src/shim/grpc/validate/bounds.js";
import { refusal } from "../../../support/refusals.js";

const many = (count: number): Readonly<Record<string, string>> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`key-${String(index)}`, "v"]));

describe("checkBounds()", () => {
  for (const version of ["v1", "v1alpha2"]) {
    test(`knows the maps of ${version}, and no other field has the name of one`, () => {
      const file = new URL(`../../../../proto/runtime/${version}/api.proto`, import.meta.url);
      const fields = readFileSync(file, "utf8").matchAll(/^ {2}(\w[^;=/]*) (\w+) = \d+;/gm);
      for (const [, type = "", name = ""] of fields) {
        // Only answers have the first two; a list cannot be taken for a map.
        if (name === "info" || type === "NamespaceOption" || type.startsWith("repeated ")) continue;
        assert.equal(maps.has(name), type.startsWith("map<"), `${type} ${name}`);
      }
    });
  }

  const refused: Readonly<Record<string, readonly [request: object, field: string]>> = {
    "a NUL byte": [{ container_id: "a\0b" }, "container_id"],
    "a NUL byte in a list": [{ config: { envs: [{}, { key: "/\0" }] } }, "config.envs[1].key"],
    "a NUL byte in a key": [{ config: { labels: { "a\0": "b" } } }, "config.labels"],
    "a NUL byte in a new field": [{ config: { brand_new: { in: ["\0"] } } }, "config.brand_new.in[0]"],
    "a string of 1 MiB": [{ image: { image: "x".repeat(1 << 20) } }, "image.image"],
    "10,000 labels": [{ config: { labels: many(10_000) } }, "config.labels"],
    "10,000 options": [{ options: many(10_000) }, "options"],
    "a label of 1 MiB": [{ config: { labels: { a: "x".repeat(1 << 20) } } }, "config.labels"],
    "10,000 mounts": [{ config: { mounts: Array(10_000).fill({}) } }, "config.mounts"],
  };
  for (const [what, [request, field]] of Object.entries(refused)) {
    test(`refuses ${what}, naming the field`, () => {
      const literal = field.replace(/[.[\]]/g, "\\$&");
      assert.throws(() => checkBounds(request), refusal("invalid", new RegExp(`^${literal}: `)));
    });
  }

  test("lets pass what kubelets may send", () => {
    checkBounds({
      config: {
        annotations: { a: "x".repeat(256 * 1024) },
        labels: many(4096),
        // Services of a large cluster.
        envs: Array(20_000).fill({ key: "A", value: Buffer.from("b\0") }),
        port_mappings: Array(10_000).fill({ container_port: 80 }),
        args: ["x".repeat(128 * 1024 - 1)],
        linux: { security_context: { supplemental_groups: Array(60_000).fill("1") }, absent: null },
      },
    });
  });
});
