import assert from "node:assert/strict";
import { chown, mkdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { test } from "node:test";
import type { CriClient } from "../../../../src/play/cri/client.js";
import {
  defaultDirectories,
  podDirectory,
  podId,
  serverId,
} from "../../../../src/play/pod-config/pod-paths.js";
import { openEngineAccess, recordDirectories } from "../../../../src/play/cli/open-engine-access.js";
import type { EngineAccess } from "../../../../src/play/cli/engine-access.js";
import { directoryId } from "../../../../src/lib/files/directory-id.js";
import { json, startFakeDocker } from "../../engine/fake-docker.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const reached = { hostPaths: { reached: true }, networkNamespaces: { reached: true } };

/** With an engine that does not exist. */
async function placeOf(
  reach: object,
  path: string,
  engine: object = {},
  dockerEndpoint?: string,
): Promise<EngineAccess> {
  const info = { reach: JSON.stringify({ jobs: reached, ...reach }), engine: JSON.stringify(engine) };
  const context = {
    ...{ endpoint: "/run/dockershim.sock", dockerEndpoint },
    directories: defaultDirectories,
    report: () => undefined,
  };
  const before = process.env["DOCKER_HOST"];
  process.env["DOCKER_HOST"] = `unix://${join(path, "no.sock")}`;
  try {
    const client = { listPodSandboxes: () => Promise.resolve([]) } as unknown as CriClient;
    return await openEngineAccess(client, { info }, context, AbortSignal.timeout(20_000));
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

test("play keeps records of pods of each engine elsewhere apart, and finds them again", async () => {
  await using at = await temporaryDirectory();
  const reach = { directory: { path: "/", id: "another host's" } };
  const states: string[] = [];
  for (const engineId of ["A:B", "C:D"]) {
    await using docker = await startFakeDocker({ "GET /info": json({ ID: engineId }) });
    await using place = await placeOf(reach, at.path, { engineId }, `unix://${docker.path}`);
    states.push(place.directories.state);
    assert.match(place.directories.state, /^\/var\/lib\/dockershim\/play\/engines\.d\/[0-9a-f]{12}$/);
  }
  assert.equal(new Set(states).size, 2);

  const [here, elsewhere] = [{}, reach].map((each) => ({
    listPodSandboxes: () => Promise.resolve([]),
    status: () =>
      Promise.resolve({
        info: {
          reach: JSON.stringify({ jobs: reached, ...each }),
          engine: JSON.stringify({ engineId: "C:D" }),
        },
      }),
  })) as unknown as readonly [CriClient, CriClient];
  const directories = { ...defaultDirectories, state: at.path };
  const paths = { endpoint: "unix:///var/run/dockershim.sock", directories };
  const find = (client: CriClient) => recordDirectories(client, paths, AbortSignal.timeout(20_000));
  const id = basename(states[1] ?? "");
  assert.equal((await find(elsewhere)).state, at.path, "there are no records of engines elsewhere");
  await mkdir(join(at.path, "engines.d"));
  assert.equal((await find(elsewhere)).state, join(at.path, "engines.d", id));
  assert.equal((await find(here)).state, at.path);
});

test("pods of each server have directories of their own, but for those that say where theirs are", async () => {
  await using at = await temporaryDirectory();
  const directories = { ...defaultDirectories, state: at.path };
  const other = "/run/other.sock";
  const id = serverId(other);
  const sandbox = (uid: string, server?: string) => ({
    metadata: { uid },
    annotations: {
      "dockershim.local/play-hash": "x",
      ...(server === undefined ? {} : { "dockershim.local/play-server": server }),
    },
  });
  // u-2 is of the default socket, and u-4 of an earlier version. Either server may have a pod u-4.
  const sandboxes = [sandbox("u-1", id), sandbox("u-2"), sandbox("u-3", "../../../etc"), sandbox("u-4")];
  const client = { listPodSandboxes: () => Promise.resolve(sandboxes) } as unknown as CriClient;
  const own = join(at.path, "servers.d", id);
  await mkdir(join(own, "u-4"), { recursive: true });
  for (const [endpoint, is] of [
    ["unix:///run/dockershim.sock", ["u-2", "u-3", "u-4"].map((uid) => join(at.path, uid))],
    ["unix:///var/run/other.sock", [join(at.path, "u-2"), join(own, "u-3"), join(own, "u-4")]],
  ] as const) {
    const found = await recordDirectories(client, { endpoint, directories }, AbortSignal.timeout(20_000));
    const seen = ["u-1", "u-2", "u-3", "u-4"].map((uid) => podDirectory(found, { uid }));
    assert.deepEqual(seen, [join(own, "u-1"), ...is]);
    // The paths of the pod's cgroup and logs do not depend on the socket, either.
    const actual = ["u-1", "u-2"].map((uid) => podId(found, { uid }));
    assert.deepEqual(actual, [`u-1.${id}`, "u-2"]);
  }
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
  const more = { memoryBytes: undefined, files, mountPoints: ["sub"] };
  await mounted.prepareVolume({ kind: "files", path: join(at.path, "pod/s"), group: undefined, ...more });
  await mounted.prepareVolume({ kind: "files", path: join(at.path, "pod/g"), group: 3000, ...more });
  const made = ["pod", "pod/etc-hosts", "pod/s", "pod/s/key", "pod/s/sub", "pod/g", "pod/g/key"];
  assert.deepEqual(await owners(...made), [
    ...["100000:200000 750", "100000:200000 644", "100000:200000 777", "100000:200000 400"],
    "100000:200000 777",
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
