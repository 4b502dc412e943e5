import assert from "node:assert/strict";
import { rmdirSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { ProgramRequest, StartProgram } from "../../../src/shim/native/start-program.js";
import { MappedRoots, overlayIn } from "../../../src/shim/oci-runtime/mapped-roots.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { snapshotOf } from "../../fakes/snapshots.js";
import { turns } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const line = (root: string, type: string, options: string): string =>
  `41 30 0:35 / ${root} rw,relatime shared:9 - ${type} overlay rw,${options}`;
const options = "lowerdir=/d/l/A:/d/l/B,upperdir=/d/x/diff,workdir=/d/x/work,index=off,nouserxattr";

describe("overlayIn()", () => {
  test("finds the layers of the topmost overlay, with the options that belong to what is stored", () => {
    const table = [
      line("/r", "overlay", "lowerdir=/o"),
      line("/other", "tmpfs", ""),
      line("/r", "overlay", options),
    ];
    assert.deepEqual(overlayIn(table.join("\n"), "/r"), {
      lower: ["/d/l/A", "/d/l/B"],
      ...{ upper: "/d/x/diff", work: "/d/x/work", options: ",index=off" },
    });
  });

  test("reads lower directories that are relative to that of all layers", () => {
    const relative = options.replace("/d/l/A:/d/l/B", "l/A:l/B");
    assert.deepEqual(
      overlayIn(line("/r", "overlay", relative), "/r"),
      overlayIn(line("/r", "overlay", options), "/r"),
    );
  });

  test("tells one that is mapped from the start before", () => {
    const mapped = options.replace("/d/l/A:/d/l/B", "l0:l1");
    assert.equal(overlayIn(line("/r", "overlay", mapped), "/r"), "mapped");
    assert.equal(overlayIn(line("/r", "overlay", options.replace("/d/l/A:/d/l/B", "l0")), "/r"), "mapped");
    assert.notEqual(overlayIn(line("/r", "overlay", options.replace("/d/l/A", "l/l0")), "/r"), "mapped");
  });

  for (const [what, table, reason] of [
    ["another file system", line("/r", "ext4", options), /is no overlay$/],
    ["no mount", line("/x", "overlay", options), /is no overlay$/],
    ["an overlay that cannot be written", line("/r", "overlay", "lowerdir=/a:/b"), /has no writable layer$/],
    [
      "paths with a backslash",
      line("/r", "overlay", options.replace("/d/l/A", "/d\\040l")),
      /unusual names$/,
    ],
  ] as const)
    test(`refuses ${what}`, () => {
      assert.throws(() => overlayIn(table, "/r"), { kind: "precondition", message: reason });
    });
});

describe("MappedRoots", () => {
  const id = "a".repeat(64);

  async function open() {
    const directory = await temporaryDirectory();
    const performed: ProgramRequest[] = [];
    const startVerb: StartProgram = (request, listener) => {
      performed.push(request);
      if (request.program === "unmapped-root") rmdirSync(request.words[0] ?? "");
      queueMicrotask(() => {
        listener.started(1);
        listener.ended({ exitCode: 0, signalName: undefined });
        listener.closed();
      });
      return { feed: () => undefined, kill: () => undefined, leave: () => undefined };
    };
    const roots = new MappedRoots({
      directory: directory.path,
      stateDirectoryId: "p",
      startVerb,
      log: recordingLog(),
    });
    const place = join(directory.path, "p");
    return {
      directory,
      performed,
      place,
      roots,
      [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
    };
  }

  test("unmounts what an earlier process left of containers that do not run, and the others when they end", async () => {
    await using bed = await open();
    const running = "b".repeat(64);
    for (const name of [id, running]) await mkdir(join(bed.place, name), { recursive: true });
    await bed.roots.adopt((one) => one === running);
    const unmounted = (): readonly unknown[] =>
      bed.performed.map(({ program, words }) => [program, ...words]);
    assert.deepEqual(unmounted(), [["unmapped-root", join(bed.place, id)]]);
    bed.roots.observe(running, snapshotOf({ id: running }));
    await turns(5);
    assert.equal(bed.performed.length, 1);
    bed.roots.observe(running, undefined);
    await turns(20);
    assert.deepEqual(unmounted()[1], ["unmapped-root", join(bed.place, running)]);
    assert.deepEqual(await readdir(bed.directory.path), []);
  });

  test("goes on where the directory of all cannot be removed, as on a disk that is read-only", async () => {
    await using bed = await open();
    const file = join(bed.directory.path, "file");
    await writeFile(file, "");
    const log = recordingLog();
    const roots = new MappedRoots({
      ...{ directory: file, stateDirectoryId: "x", log },
      startVerb: () => assert.fail("nothing is mounted there"),
    });
    await roots.adopt(() => false);
    assert.match(JSON.stringify(log.lines), /cannot remove the directory of roots of containers/);
  });

  test("mounts nothing for a process of another mount namespace, or of none", async () => {
    await using bed = await open();
    const users = { uids: { hostId: 1, size: 1 }, gids: { hostId: 1, size: 1 } };
    await assert.rejects(
      bed.roots.mount(id, { pid: 2 ** 30, root: "/" }, users),
      /different mount namespaces/,
    );
    assert.deepEqual(bed.performed, []);
    await assert.rejects(readdir(bed.place), { code: "ENOENT" });
  });
});
