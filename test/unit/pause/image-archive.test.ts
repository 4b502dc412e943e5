import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { buildImageArchive, type ImageArchiveOptions } from "../../../src/shim/pause/image-archive.js";
import { contentOf, jsonOf, readTar } from "./read-archive.js";

type Descriptor = Readonly<{ digest: string; size: number }>;
type Manifest = Readonly<{ config: Descriptor; layers: readonly Descriptor[] }>;
type Described = Descriptor & { platform: object; annotations: Record<string, string> };
type DockerManifest = readonly { Config: string; RepoTags: readonly string[]; Layers: readonly string[] }[];

const options: ImageArchiveOptions = {
  reference: "demo:2",
  architecture: "arm64",
  config: { Cmd: ["/bin/sh"], Env: ["A=b"], Labels: { z: "1", a: "2" }, StopSignal: "SIGINT" },
  layers: [
    [
      { path: "/bin", type: "directory", mode: 0o755 },
      { path: "bin/busybox", type: "file", mode: 0o4755, uid: 3, gid: 4, content: Buffer.from("program") },
      { path: "bin/sh", type: "symlink", mode: 0o777, target: "busybox" },
    ],
    [{ path: "secret", type: "file", mode: 0, content: Buffer.from("x") }],
  ],
};

function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

async function read(archive: Buffer) {
  const members = await readTar(archive);
  const [described] = (jsonOf(members, "index.json") as { manifests: readonly Described[] }).manifests;
  const [docker] = jsonOf(members, "manifest.json") as DockerManifest;
  assert.ok(described !== undefined && docker !== undefined);
  const manifest = jsonOf(members, blobPath(described.digest)) as Manifest;
  return { members, described, docker, manifest };
}

const digestOf = (content: Buffer): string => `sha256:${createHash("sha256").update(content).digest("hex")}`;

describe("buildImageArchive()", () => {
  test("names every blob by its digest and descriptors by digest and size", async () => {
    const { members, described, manifest } = await read(await buildImageArchive(options));
    const descriptors = [described, manifest.config, ...manifest.layers];
    assert.equal(descriptors.length, 4);
    for (const { digest, size } of descriptors) {
      const content = contentOf(members, blobPath(digest));
      assert.deepEqual([digestOf(content), content.length], [digest, size]);
    }
    assert.deepEqual(jsonOf(members, "oci-layout"), { imageLayoutVersion: "1.0.0" });
  });

  test("gives both image stores the same configuration and layers under the full and the given name", async () => {
    const { described, docker, manifest } = await read(await buildImageArchive(options));
    assert.equal(docker.Config, blobPath(manifest.config.digest));
    const layers = manifest.layers.map((layer) => blobPath(layer.digest));
    assert.deepEqual(docker.Layers, layers);
    assert.deepEqual(docker.RepoTags, ["demo:2"]);
    assert.equal(described.annotations["io.containerd.image.name"], "docker.io/library/demo:2");
    assert.deepEqual(described.platform, { architecture: "arm64", os: "linux" });
  });

  test("writes the configuration with sorted labels, without what was not given", async () => {
    const { members, docker } = await read(await buildImageArchive(options));
    const text = contentOf(members, docker.Config).toString();
    const diffIds = docker.Layers.map((path) => digestOf(contentOf(members, path)));
    const history = { created: "1970-01-01T00:00:00Z", created_by: "dockershim" };
    assert.deepEqual(JSON.parse(text), {
      created: "1970-01-01T00:00:00Z",
      architecture: "arm64",
      os: "linux",
      config: { Env: ["A=b"], Cmd: ["/bin/sh"], Labels: { a: "2", z: "1" }, StopSignal: "SIGINT" },
      rootfs: { type: "layers", diff_ids: diffIds },
      history: [history, history],
    });
    assert.match(text, /"Labels":\{"a":"2","z":"1"\}/);
  });

  test("keeps type, mode, owner, target and content of layer entries, with the epoch as time", async () => {
    const { members, docker } = await read(await buildImageArchive(options));
    const [lower, upper] = await Promise.all(docker.Layers.map((path) => readTar(contentOf(members, path))));
    assert.ok(lower !== undefined && upper !== undefined);
    const shown = [...lower.values(), ...upper.values()].map(({ header, content }) => ({
      name: header.name.replace(/\/$/, ""),
      type: header.type,
      mode: header.mode,
      owner: `${header.uid}:${header.gid}`,
      target: header.linkname,
      time: header.mtime.getTime(),
      content: content.toString(),
    }));
    const common = { owner: "0:0", target: null, time: 0, content: "" };
    assert.deepEqual(shown, [
      { ...common, name: "bin", type: "directory", mode: 0o755 },
      { ...common, name: "bin/busybox", type: "file", mode: 0o4755, owner: "3:4", content: "program" },
      { ...common, name: "bin/sh", type: "symlink", mode: 0o777, target: "busybox" },
      { ...common, name: "secret", type: "file", mode: 0, content: "x" },
    ]);
  });

  test("gives equal bytes at different times and for any order of keys", async (t) => {
    const first = await buildImageArchive(options);
    t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2040, 0, 1) });
    const { StopSignal = "", Cmd = [], Env = [] } = options.config;
    const config = { StopSignal, Labels: { a: "2", z: "1" }, Env, Cmd };
    assert.deepEqual(await buildImageArchive({ ...options, config }), first);
  });

  test("writes a layer that occurs twice once", async () => {
    const layer = options.layers[0] ?? [];
    const archive = await buildImageArchive({ ...options, layers: [layer, layer] });
    const { members, docker } = await read(archive);
    assert.equal(docker.Layers.length, 2);
    assert.equal([...members.keys()].filter((name) => /^blobs\/sha256\/./.test(name)).length, 3);
    assert.equal(archive.toString("latin1").split("program").length, 2);
  });

  const digest = `sha256:${"0".repeat(64)}`;
  for (const reference of ["demo", `demo@${digest}`, `demo:2@${digest}`, "Demo:2"]) {
    test(`refuses the reference ${reference.slice(0, 20)}`, async () => {
      await assert.rejects(buildImageArchive({ ...options, reference }), { kind: "invalid" });
    });
  }
});
