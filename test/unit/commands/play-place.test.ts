import assert from "node:assert/strict";
import { chown, stat } from "node:fs/promises";
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
async function placeOf(reach: object, path: string, engine: object = {}): Promise<PlayPlace> {
  const info = { reach: JSON.stringify({ jobs: reached, ...reach }), engine: JSON.stringify(engine) };
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

const skip = process.getuid?.() === 0 ? false : "only root may give files away";

test("play gives its files to root of the containers of an engine with userns-remap", { skip }, async () => {
  await using at = await temporaryDirectory();
  const engine = { security: { usernsRemap: true }, dockerRootDir: "/var/lib/docker/100000.200000" };
  await using place = await placeOf({}, at.path, engine);
  const { mounted } = place;
  const owners = async (...paths: readonly string[]): Promise<readonly string[]> =>
    Promise.all(
      paths.map(async (path) => {
        const { uid, gid, mode } = await stat(join(at.path, path));
        return `${uid}:${gid} ${(mode & 0o7777).toString(8)}`;
      }),
    );
  await mounted.writeFile(join(at.path, "pod/etc-hosts"), "text", 0o644);
  const files = new Map([["key", { content: Buffer.from("hush"), mode: 0o400 }]]);
  const more = { memoryBytes: undefined, files };
  await mounted.prepareVolume({ kind: "files", path: join(at.path, "pod/s"), group: undefined, ...more });
  await mounted.prepareVolume({ kind: "files", path: join(at.path, "pod/g"), group: 3000, ...more });
  assert.deepEqual(await owners("pod", "pod/etc-hosts", "pod/s", "pod/s/key", "pod/g", "pod/g/key"), [
    ...["100000:200000 750", "100000:200000 644", "100000:200000 777", "100000:200000 400"],
    ...["100000:203000 2777", "100000:203000 440"],
  ]);
  // Data that was there before.
  const path = join(at.path, "claim");
  const claim = { kind: "claim", path, claim: "default/data", trustRoot: false } as const;
  await mounted.prepareVolume({ ...claim, group: undefined });
  await chown(path, 107_000, 200_000);
  await mounted.prepareVolume({ ...claim, group: 3000 });
  assert.deepEqual(await owners("claim"), ["107000:203000 2777"]);
});
