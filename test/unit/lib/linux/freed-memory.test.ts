import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { describe, it } from "node:test";
import {
  type ForeignFunctions,
  freedMemoryReturner,
  textThroughFile,
  unchangedRanges,
} from "../../../../src/lib/linux/freed-memory.js";

describe("freedMemoryReturner()", () => {
  it("calls malloc_trim and madvise of the C library, which it opens once", () => {
    const calls: unknown[] = [];
    const called =
      (name: string) =>
      (...values: readonly unknown[]): unknown =>
        calls.push([name, ...values]);
    const foreign: ForeignFunctions = {
      dlopen: (library, functions) => {
        calls.push([library, ...Object.keys(functions)]);
        return { functions: { malloc_trim: called("malloc_trim"), madvise: called("madvise") } };
      },
    };
    const giveBack = freedMemoryReturner(
      () => foreign,
      () => [
        [0x1000n, 0x3000n],
        [0x8000n, 0x9000n],
      ],
    );
    assert.deepEqual(calls, []);
    giveBack();
    const [opened, ...first] = calls;
    assert.deepEqual(opened, ["libc.so.6", "malloc_trim", "madvise"]);
    assert.deepEqual(first, [
      ["malloc_trim", 0n],
      ["madvise", 0x1000n, 0x2000n, 4],
      ["madvise", 0x8000n, 0x1000n, 4],
    ]);
    giveBack();
    assert.deepEqual(calls.slice(1 + first.length), first);
  });

  it("goes on after a time in which the mappings cannot be read", () => {
    let trims = 0;
    const functions = { malloc_trim: () => (trims += 1) };
    const giveBack = freedMemoryReturner(
      () => ({ dlopen: () => ({ functions }) }),
      () => assert.fail("too many open files"),
    );
    giveBack();
    giveBack();
    assert.equal(trims, 2);
  });

  for (const [what, load] of [
    ["Node.js has no foreign functions", () => undefined],
    ["the C library has another name", () => ({ dlopen: () => assert.fail("no such file") })],
    ["the C library has none of the functions", () => ({ dlopen: () => assert.fail("no such symbol") })],
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

  it("prints no warning, and gives pages of the program back from Node.js 26 on", (context) => {
    const warnings = context.mock.method(process, "emitWarning", () => undefined);
    const before = residentOfFiles();
    freedMemoryReturner()();
    const after = residentOfFiles();
    assert.equal(warnings.mock.callCount(), 0);
    // What runs comes back at once: some 12 of 50 MiB.
    if (isBuiltin("node:ffi")) assert.ok(after < 0.7 * before, `${after} of ${before} kB`);
    else assert.ok(Number(process.versions.node.split(".")[0]) < 26);
  });
});

/** In kB: the program and its libraries. */
function residentOfFiles(): number {
  return Number(/^RssFile:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1]);
}

describe("unchangedRanges()", () => {
  const mapping = (head: string, { anonymous = 0, swapped = 0 } = {}): string =>
    [
      head,
      "Size:              36880 kB",
      "Rss:               20912 kB",
      `Anonymous:         ${String(anonymous).padStart(5)} kB`,
      "AnonHugePages:         0 kB",
      `Swap:              ${String(swapped).padStart(5)} kB`,
      "SwapPss:               0 kB",
      "VmFlags: rd mr mw me",
      "",
    ].join("\n");
  const code = "0082e000-03489000 r-xp 0042e000 fe:00 9995188                            /opt/my program";
  const constants =
    "03489000-072a7000 r--p 03089000 fe:00 9995188                            /opt/my program";

  it("answers the code and the constants of the file", () => {
    const smaps = mapping(code) + mapping(constants);
    assert.deepEqual(unchangedRanges(smaps, "/opt/my program"), [
      [0x82e000n, 0x3489000n],
      [0x3489000n, 0x72a7000n],
    ]);
  });

  for (const [what, text] of [
    ["relocations, which are anonymous memory", mapping(constants, { anonymous: 20 })],
    ["relocations that are swapped out", mapping(constants, { swapped: 20 })],
    ["what can be written", mapping(code.replace("r-xp", "rw-p"))],
    ["what is shared with other processes", mapping(code.replace("r-xp", "r-xs"))],
    ["another file", mapping(code.replace("/opt/my program", "/usr/lib/libm.so.6"))],
    ["another file whose path ends alike", mapping(code.replace("/opt/my", "/x/opt/my"))],
    ["memory without a file", mapping("7f00-8f00 r--p 00000000 00:00 0 ")],
    ["a mapping of which the kernel does not say it", `${code}\nRss:  20912 kB\n`],
  ] as const)
    it(`leaves out ${what}`, () => {
      assert.deepEqual(unchangedRanges(text, "/opt/my program"), []);
    });
});

describe("textThroughFile()", () => {
  const own = "1000-2000 r-xp 00000000 fe:00 7    /opt/program\nRss: 4 kB\n";
  const other = "3000-4000 r-xp 00000000 fe:00 8    /usr/lib/libm.so.6\nRss: 4 kB\n";
  for (const [what, texts, expected] of [
    ["the heap", [own, own + other, other], own + own + other],
    ["nothing, where the file comes last", [other, own, own], other + own + own],
    ["nothing, where the file is missing", [other, other], other + other],
  ] as const)
    it(`leaves out ${what}`, () => {
      const rest: string[] = [...texts];
      assert.equal(
        textThroughFile(() => rest.shift() ?? "", "/opt/program"),
        expected,
      );
    });
});
