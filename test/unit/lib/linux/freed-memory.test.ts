import assert from "node:assert/strict";
import { isBuiltin } from "node:module";
import { describe, it } from "node:test";
import { type ForeignFunctions, freedMemoryReturner } from "../../../../src/lib/linux/freed-memory.js";

describe("freedMemoryReturner()", () => {
  it("calls malloc_trim of the C library, which it opens once", () => {
    const calls: unknown[] = [];
    const foreign: ForeignFunctions = {
      dlopen: (library, functions) => {
        calls.push(library, functions);
        return { functions: { malloc_trim: (keptBytes) => calls.push(keptBytes) } };
      },
    };
    const giveBack = freedMemoryReturner(() => foreign);
    assert.deepEqual(calls, []);
    giveBack();
    giveBack();
    assert.deepEqual(calls, ["libc.so.6", { malloc_trim: { arguments: ["u64"], return: "i32" } }, 0n, 0n]);
  });

  for (const [what, load] of [
    ["Node.js has no foreign functions", () => undefined],
    ["the C library has another name", () => ({ dlopen: () => assert.fail("no such file") })],
    ["the C library has no malloc_trim", () => ({ dlopen: () => ({ functions: {} }) })],
    [
      "its functions take other arguments",
      () => ({ dlopen: () => ({ functions: { malloc_trim: () => assert.fail("no number") } }) }),
    ],
  ] as const) {
    it(`does nothing where ${what}, and asks once`, () => {
      let asked = 0;
      const giveBack = freedMemoryReturner(() => {
        asked += 1;
        return load();
      });
      giveBack();
      giveBack();
      assert.equal(asked, 1);
    });
  }

  it("prints no warning with this Node.js, and reaches its C library from 26 on", (context) => {
    const warnings = context.mock.method(process, "emitWarning", () => undefined);
    freedMemoryReturner()();
    assert.equal(warnings.mock.callCount(), 0);
    const [major] = process.versions.node.split(".");
    assert.ok(isBuiltin("node:ffi") || Number(major) < 26);
  });
});
