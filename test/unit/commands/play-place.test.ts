import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { CriClient } from "../../../src/play/client.js";
import { defaultDirectories } from "../../../src/play/containers/pod-files.js";
import { openPlayPlace } from "../../../src/shim/commands/open-play-place.js";
import type { PlayPlace } from "../../../src/shim/commands/play-place.js";
import { directoryId } from "../../../src/shim/lib/files/directory-id.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const reached = { hostPaths: { reached: true }, networkNamespaces: { reached: true } };

/** With an engine that does not exist. */
async function placeOf(reach: object, path: string): Promise<PlayPlace> {
  const info = { reach: JSON.stringify({ jobs: reached, ...reach }) };
  const context = {
    endpoint: join(path, "cri.sock"),
    directories: defaultDirectories,
    report: () => undefined,
  };
  const before = process.env["DOCKER_HOST"];
  process.env["DOCKER_HOST"] = `unix://${join(path, "no.sock")}`;
  try {
    return await openPlayPlace({} as unknown as CriClient, { info }, context, AbortSignal.timeout(20_000));
  } finally {
    if (before === undefined) delete process.env["DOCKER_HOST"];
    else process.env["DOCKER_HOST"] = before;
  }
}

test("play keeps its files on this host when it sees the directory of the server", async () => {
  await using at = await temporaryDirectory();
  const id = await directoryId(at.path);
  await using place = await placeOf({ directory: { path: at.path, id } }, at.path);
  assert.equal(place.engine, undefined);
  await using unnamed = await placeOf({}, at.path);
  assert.equal(unnamed.engine, undefined);
});

test("play does not believe that the engine sees its files when the server's are others", async () => {
  await using at = await temporaryDirectory();
  for (const path of [at.path, "/no/such/directory"])
    await assert.rejects(
      placeOf({ directory: { path, id: "of:another:host" } }, at.path),
      /sees no files of this host, .*no\.sock.*set DOCKER_HOST/,
    );
});
