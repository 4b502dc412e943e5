import assert from "node:assert/strict";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { FileWatch, checkWatched, emptiedFile } from "../../../../src/play/manifests/watch-files.js";
import { until } from "../../../fakes/turns.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

type Change = (directory: string) => Promise<void>;
const write =
  (name: string, text = "b"): Change =>
  (directory) =>
    writeFile(join(directory, name), text);

const cases: readonly (readonly [
  string,
  { names: readonly string[]; recursive?: boolean; change: Change },
])[] = [
  ["a file that is written", { names: ["web.yaml"], change: write("web.yaml") }],
  [
    "a file that another one replaces, as editors do",
    {
      names: ["web.yaml"],
      change: async (directory) => {
        await writeFile(join(directory, "web.yaml~"), "b");
        await rename(join(directory, "web.yaml~"), join(directory, "web.yaml"));
      },
    },
  ],
  ["a file that a link leads to", { names: ["link.yaml"], change: write("below/real.yaml") }],
  ["a new file in a directory", { names: ["below"], change: write("below/new.yaml") }],
  ["a new file far below", { names: ["."], recursive: true, change: write("below/deep/new.yaml") }],
  ["a file that comes back", { names: ["gone.yaml"], change: write("gone.yaml") }],
];

for (const [what, { names, recursive = false, change }] of cases)
  test(`FileWatch notices ${what}`, async () => {
    await using temporary = await temporaryDirectory();
    const directory = temporary.path;
    await mkdir(join(directory, "below/deep"), { recursive: true });
    for (const name of ["web.yaml", "below/real.yaml"]) await writeFile(join(directory, name), "a");
    await symlink("below/real.yaml", join(directory, "link.yaml"));
    let changes = 0;
    const onChange = (): void => void (changes += 1);
    using watch = new FileWatch(
      names.map((name) => join(directory, name)),
      { recursive, onChange },
    );
    await watch.renew();
    await change(directory);
    await until("it is noticed", () => changes > 0);
  });

test("FileWatch looks into directories that were made since the last renew", async () => {
  await using temporary = await temporaryDirectory();
  const directory = temporary.path;
  let changes = 0;
  const onChange = (): void => void (changes += 1);
  using watch = new FileWatch([directory], { recursive: true, onChange });
  await watch.renew();
  await mkdir(join(directory, "below"));
  await until("the directory is noticed", () => changes === 1);
  await watch.renew();
  await write("below/web.yaml")(directory);
  await until("the file is noticed", () => changes === 2);
  await rm(join(directory, "below"), { recursive: true });
  await until("its removal is noticed", () => changes === 3);
  await watch.renew();
  assert.equal(changes, 3);
});

test("standard input and pipes cannot be watched", async () => {
  await using temporary = await temporaryDirectory();
  const file = join(temporary.path, "web.yaml");
  await write("web.yaml")(temporary.path);
  await checkWatched([file, temporary.path]);
  for (const name of ["-", "/dev/null", join(temporary.path, "gone.yaml")])
    await assert.rejects(checkWatched([file, name]), /--watch needs files and directories/);
});

test("a file that has just been emptied is told from one that was empty", () => {
  const file = (name: string, text: string) => ({ name, text });
  const before = [file("a", "kind: Pod"), file("b", "\n")];
  assert.equal(emptiedFile(before, [file("a", "\n"), file("b", "")]), "a");
  assert.equal(emptiedFile(before, [file("a", "kind: Job"), file("b", "")]), undefined);
  assert.equal(emptiedFile(before, []), undefined);
});
