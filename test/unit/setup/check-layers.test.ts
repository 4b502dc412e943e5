import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { importsOf, layers, violations } from "../../../scripts/check-layers.mjs";

const check = (path: string, text: string) => violations([{ path, imports: importsOf(text) }]);

describe("violations()", () => {
  const forbidden: [string, string, RegExp][] = [
    ["src/lib/a.ts", 'import { b } from "../domain/b.js";', /a\.ts:1: imports src\/domain\/b\.ts/],
    ["src/shim/engine/a.ts", 'import type { b } from "../host/b.js";', /engine imports only lib, domain/],
    ["src/network/a.ts", 'import { b } from "../shim/cri/b.js";', /network imports only/],
    ["src/shim/cri/a.ts", 'import { b } from "../../play/b.js";', /cri imports only/],
    ["src/shim/app/a.ts", 'import { b } from "../../play/b.js";', /app imports only/],
    ["src/compare/relay/a.ts", 'import { b } from "../record/b.js";', /compare\/relay imports only/],
    ["src/migrate/facts/a.ts", 'import { b } from "../judge/b.js";', /migrate\/facts imports only/],
    ["src/shim/plan/a.ts", 'import { join } from "node:path";', /no module of Node\.js/],
    ["src/shim/cri/a.ts", 'import Docker from "dockerode";', /package dockerode, which belongs elsewhere/],
    ["src/play/view/table.ts", 'import { credentials } from "@grpc/grpc-js";', /belongs elsewhere/],
    ["src/shim/config/a.ts", '\nimport { parse } from "../../lib/yaml.js";', /a\.ts:2: .*await import/],
    ["src/shim/config/a.ts", 'const { parse } = await import("yaml");', /yaml, which belongs elsewhere/],
    ["src/shim/streaming/a.ts", 'const { WebSocket } = await import("ws");', /ws late, it must be at/],
    ["src/lib/a.ts", 'import lodash from "lodash";', /does not know/],
    ["src/shim/fresh/a.ts", 'import { b } from "../../lib/b.js";', /no layer/],
    ["src/domain/a.ts", 'export * from "../shim/ports/b.js";', /domain imports only lib/],
    ["src/domain/a.ts", 'type B = import("../shim/ports/b.js").B;', /domain imports only lib/],
    ["src/domain/a.ts", 'const b = await import("../shim/ports/b.js");', /domain imports only lib/],
  ];
  for (const [path, text, expected] of forbidden)
    test(`forbids ${text.trim()} in ${path}`, () => {
      const found = check(path, text);
      assert.equal(found.length, 1, found.join("\n"));
      assert.match(found[0] ?? "", expected);
    });

  const allowed: [string, string][] = [
    ["src/shim/cri/a.ts", 'import { b } from "../state/b.js"; import { c } from "./c.js";'],
    ["src/main/main.ts", 'import { b } from "../cli/b.js"; import { Command } from "commander";'],
    ["src/lib/yaml.ts", 'export { parse } from "yaml";'],
    ["src/shim/config/a.ts", 'const { parse } = await import("../../lib/yaml.js");'],
    ["src/client/cri-connection.ts", 'import { credentials } from "@grpc/grpc-js";'],
    ["checkpoints/a.ts", 'import { open } from "node:fs/promises"; import { b } from "../src/lib/b.js";'],
  ];
  for (const [path, text] of allowed)
    test(`allows ${text} in ${path}`, () => assert.deepEqual(check(path, text), []));

  test("reports a circle of imports once, with its way", () => {
    const modules = ["b", "c", "a"].map((to, index) => {
      const path = `src/lib/${"abc"[index] ?? ""}.ts`;
      return { path, imports: importsOf(`import "./${to}.js";`) };
    });
    const found = violations(modules);
    assert.equal(found.length, 1);
    assert.match(found[0] ?? "", /a\.ts -> src\/lib\/b\.ts -> src\/lib\/c\.ts -> src\/lib\/a\.ts$/);
  });
});

test("layers never allow each other in a circle", () => {
  const done = new Set<string>();
  const below = (layer: string, seen: readonly string[]): void => {
    assert.ok(!seen.includes(layer), [...seen, layer].join(" -> "));
    if (done.has(layer)) return;
    for (const next of layers[layer] ?? []) below(next, [...seen, layer]);
    done.add(layer);
  };
  // main is at the top: it may import everything, and no layer imports it.
  for (const layer of Object.keys(layers).filter((name) => name !== "main")) below(layer, []);
});
