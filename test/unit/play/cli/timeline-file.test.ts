import assert from "node:assert/strict";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { checkTimelineFile } from "../../../../src/play/cli/timeline-file.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

for (const [name, expected] of [
  ["a.svg", undefined],
  ["there.svg", undefined],
  ["a.png", /--timeline.*a\.png": is not an SVG file/],
  ["a", /is not an SVG file/],
  ["missing/a.svg", /there is no directory ".*missing"/],
  ["there.svg/a.svg", /there\.svg" is not a directory/],
  ["directory.svg", /exists and is not a file/],
] as const)
  test(`checkTimelineFile() ${expected === undefined ? "takes" : "refuses"} "${name}", and makes nothing`, async () => {
    await using temporary = await temporaryDirectory();
    await writeFile(join(temporary.path, "there.svg"), "");
    await mkdir(join(temporary.path, "directory.svg"));
    const check = checkTimelineFile(join(temporary.path, name));
    await (expected === undefined ? check : assert.rejects(check, expected));
    assert.equal((await readdir(temporary.path)).length, 2);
  });
