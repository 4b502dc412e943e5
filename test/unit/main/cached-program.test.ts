import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { readProgram } from "../../../src/main/cached-program.js";

const program = "function add(a,b){return a+b}\nmodule.exports=add(20,22)";

function otherVersion(content: Buffer): Buffer {
  return Buffer.from(content.toString("latin1").replace(process.versions.node, "0.0.0"), "latin1");
}

describe("readProgram()", () => {
  let directory = "";
  let path = "";
  let file = "";
  let cache = "";
  // tsx sets it.
  const { sourceMapsEnabled } = process;
  before(() => {
    process.setSourceMapsEnabled(false);
  });
  after(() => {
    process.setSourceMapsEnabled(sourceMapsEnabled);
  });
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "dockershim-quick-"));
    path = join(directory, "program");
    file = `${path}.cjs`;
    cache = `${path}.cache`;
    await writeFile(file, program);
    const { cacheFile, run } = readProgram(path);
    run();
    await writeFile(cache, cacheFile() ?? "");
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  /** What the program answers, and whether V8 took the cache; undefined when it was not given any. */
  const played = (): { readonly answer: unknown; readonly isCached: boolean | undefined } => {
    const { script, run } = readProgram(path);
    const { cachedDataRejected } = script;
    return { answer: run(), isCached: cachedDataRejected === undefined ? undefined : !cachedDataRejected };
  };

  test("uses a cache that was made of the file by this Node.js", () => {
    assert.deepEqual(played(), { answer: 42, isCached: true });
  });

  test("gives V8 no cache of another program of the same length", async () => {
    await writeFile(file, program.replace("22", "33"));
    assert.deepEqual(played(), { answer: 53, isCached: undefined });
  });

  for (const [what, damage] of [
    ["is missing", undefined],
    ["another Node.js made", (content) => otherVersion(content)],
    ["is empty", () => Buffer.alloc(0)],
    ["is cut off in its header", (content) => content.subarray(0, 20)],
    ["is cut off in its data", (content) => content.subarray(0, -1)],
    ["is too long", (content) => Buffer.concat([content, Buffer.alloc(8)])],
    [
      "has a changed byte",
      (content) => Buffer.concat([content.subarray(0, -1), Buffer.of(content.at(-1)! ^ 1)]),
    ],
  ] as readonly [string, ((content: Buffer) => Buffer) | undefined][]) {
    test(`gives V8 no cache that ${what}`, async () => {
      if (damage === undefined) await rm(cache);
      else await writeFile(cache, damage(await readFile(cache)));
      assert.deepEqual(played(), { answer: 42, isCached: undefined });
    });
  }

  test("writes nothing, so that the directory may be read-only", async () => {
    await rm(cache);
    await chmod(directory, 0o555);
    assert.equal(played().answer, 42);
    assert.deepEqual(await readdir(directory), ["program.cjs"]);
    await chmod(directory, 0o755);
  });

  test("names the file in stack traces", async () => {
    await writeFile(file, "throw new Error('broken')");
    assert.throws(
      () => readProgram(path).run(),
      (error: Error) => error.stack?.includes(`${file}:1:`) === true,
    );
  });
});
