/** Files of images in containers that are not made of them, in every way that this engine has. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { before, describe, test } from "node:test";
import type { Answer, Mount } from "../../src/domain/cri.js";
import type { ArchiveEntry } from "../../src/shim/pause/image-archive.js";
import { rejectsWith } from "../support/cri-client.js";
import { docker, dockerJson, inspectImage, removeImage } from "../support/docker.js";
import type { Pod } from "../support/pod.js";
import type { ProxiedRequest } from "../support/engine-proxy.js";
import type { ShimProcess } from "../support/shim-process.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

function file(path: string, text = path, changes: Partial<ArchiveEntry> = {}): ArchiveEntry {
  return { path, type: "file", mode: 0o644, content: Buffer.from(text), ...changes } as ArchiveEntry;
}

function directory(path: string): ArchiveEntry {
  return { path, type: "directory", mode: 0o755 };
}

/** A directory of one layer, of several, with something deleted, and opaque. */
const modelLayers: readonly (readonly ArchiveEntry[])[] = [
  [
    ...["weights", "both", "opaque", "opaque/inner", "hidden", "etc"].map(directory),
    file("weights/a", "one"),
    file("weights/private", "p", { mode: 0o600, uid: 1000, gid: 50 }),
    file("weights/run", "#!/bin/sh\necho ran\n", { mode: 0o755 }),
    { path: "weights/link", type: "symlink", mode: 0o777, target: "a" },
    { path: "current", type: "symlink", mode: 0o777, target: "/both" },
    ...["both/old", "both/deleted", "opaque/inner/old", "hidden/x", "etc/hosts2", "file"].map((path) =>
      file(path),
    ),
  ],
  [
    ...["both", "opaque", "opaque/inner"].map(directory),
    file("both/.wh.deleted", ""),
    file("opaque/.wh..wh..opq", ""),
    file(".wh.hidden", ""),
    ...["both/new", "opaque/inner/new"].map((path) => file(path)),
  ],
];

/** Where the engine is, as the shim sees it: on this host, or one whose disk is out of reach. */
const engines = ["here", "elsewhere"] as const;

describe("image volumes", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();

  async function loadModel(
    layers = modelLayers,
  ): Promise<{ readonly id: string; readonly reference: string }> {
    const reference = `dockershim.test/${bed.newName("model")}:1`;
    await bed.load({ reference, marker: reference, layers, config: { Volumes: { "/weights": {} } } });
    return { id: (await inspectImage(reference))?.Id ?? "", reference };
  }

  function volume(image: string, image_sub_path = "", container_path = "/model"): Answer<Mount> {
    return { container_path, readonly: true, image: { image }, image_sub_path };
  }

  /** What the shim has in the engine for image volumes, or to look into images. */
  async function made({ stateDirectory }: ShimProcess): Promise<{ pins: string[]; volumes: string[] }> {
    const place = createHash("sha256").update(stateDirectory).digest("hex").slice(0, 16);
    const of = (label: string): string => encodeURIComponent(JSON.stringify({ label: [label] }));
    const label = `dockershim.image-volume=${place}`;
    const pins = (await dockerJson("GET", `/containers/json?all=1&filters=${of(label)}`)) as { Id: string }[];
    const { Volumes } = (await dockerJson("GET", `/volumes?filters=${of(label)}`)) as {
      Volumes: { Name: string }[] | null;
    };
    return { pins: pins.map(({ Id }) => Id), volumes: (Volumes ?? []).map(({ Name }) => Name).sort() };
  }

  const nothing = { pins: [], volumes: [] };

  for (const where of engines) {
    describe(`of an engine ${where}`, () => {
      let shim: ShimProcess;
      let pod: Pod;
      let model: { readonly id: string; readonly reference: string };
      before(async () => {
        if (where === "here") shim = await bed.startShim();
        else shim = await bed.startShim({ flags: ["--engine-reach=remote"] });
        pod = bed.own(await bed.runPod(shim.cri));
        model = await loadModel();
      });

      test("all files are there, as the layers make them, for reading and running", async () => {
        const id = await pod.start({
          metadata: { name: "whole", attempt: 0 },
          mounts: [volume(model.id), volume(model.id, "", "/again")],
        });
        const listed = await pod.shell(id, "cd /model; ls weights both opaque/inner; ls -d hidden || true");
        assert.deepEqual(listed.split(/\s+/), [
          ...["both:", "new", "old"],
          ...["opaque/inner:", "new"],
          ...["weights:", "a", "link", "private", "run"],
        ]);
        assert.equal(
          await pod.shell(id, "cat /model/weights/link /again/weights/a; /model/weights/run"),
          "oneoneran",
        );
        assert.equal(await pod.shell(id, "stat -c '%u:%g %a' /model/weights/private"), "1000:50 600");
        const { exitCode, stderr } = await pod.exec(id, "touch", "/model/new");
        assert.notEqual(exitCode, 0);
        assert.match(stderr, /[Rr]ead-only/);
      });

      test("sub paths of one layer, of several, over whiteouts and opaque directories, and by a link", async () => {
        const subPaths = [
          ["weights", "a link private run"],
          ["both", "new old"],
          ["current", "new old"],
          ["opaque/inner", "new"],
          ["opaque", "inner"],
        ] as const;
        const id = await pod.start({
          metadata: { name: "sub", attempt: 0 },
          mounts: subPaths.map(([subPath]) => volume(model.id, subPath, `/m/${subPath}`)),
        });
        for (const [subPath, expected] of subPaths) {
          const names = await pod.shell(id, `ls /m/${subPath}`);
          assert.equal(names.split(/\s+/).join(" "), expected, subPath);
        }
      });

      test("sub paths that are absent, deleted or files are refused when the container is created", async () => {
        for (const [subPath, reason] of [
          ["absent", /no such directory/],
          ["both/deleted", /no such directory/],
          ["file", /not a directory/],
        ] as const) {
          const metadata = { name: "refused", attempt: 0 };
          const created = pod.create({ metadata, mounts: [volume(model.id, subPath)] });
          const message = await rejectsWith(created, "FAILED_PRECONDITION", reason);
          assert.match(message, /^ImageVolumeMountFailed: /);
        }
      });

      test("five containers at once share it; the image stays until the last is gone, and then goes", async () => {
        const { id: image, reference } = await loadModel();
        const before = await made(shim);
        const ids = await Promise.all(
          ["a", "b", "c", "d", "e"].map((name) =>
            pod.start({ metadata: { name: `share-${name}`, attempt: 0 }, mounts: [volume(image)] }),
          ),
        );
        const shared = await made(shim);
        assert.ok(shared.volumes.length - before.volumes.length <= 1, "at most one volume more");
        for (const id of ids) {
          await rejectsWith(
            shim.cri.RemoveImage({ image: { image: reference } }),
            "FAILED_PRECONDITION",
            /as an image volume/,
          );
          assert.equal(await removeImage(reference), false, "docker rmi is refused, too");
          assert.equal(await pod.shell(id, "cat /model/weights/a"), "one");
          await shim.cri.RemoveContainer({ container_id: id });
        }
        assert.deepEqual(await made(shim), before);
        await shim.cri.RemoveImage({ image: { image: reference } });
        assert.equal(await inspectImage(image), undefined);
      });

      test("with the pod goes everything", async () => {
        await pod[Symbol.asyncDispose]();
        assert.deepEqual(await made(shim), nothing);
      });
    });
  }

  test("an image of many layers", async () => {
    const shim = await bed.startShim();
    await using pod = await bed.runPod(shim.cri);
    const count = long ? 110 : 55;
    const { id } = await loadModel(Array.from({ length: count }, (_, index) => [file(`f${String(index)}`)]));
    const container = await pod.start({ mounts: [volume(id)] });
    const found = await pod.shell(container, "cd /model && for f in *; do cat $f; echo; done");
    assert.deepEqual(
      new Set(found.split("\n")),
      new Set(Array.from({ length: count }, (_, index) => `f${String(index)}`)),
    );
  });

  describe("after kill -9", () => {
    const creates =
      (prefix: string) =>
      ({ path }: ProxiedRequest) =>
        path.startsWith(`/containers/create?name=${prefix}`);
    const removes = ({ method, path }: ProxiedRequest): boolean =>
      method === "DELETE" && path.startsWith("/containers/");
    for (const [what, moment, matches] of [
      ["before the pin is made", "before", creates("dockershim-image-")],
      ["after the pin was made", "after", creates("dockershim-image-")],
      ["before the container is made", "before", creates("k8s_main")],
      ["after the container was made", "after", creates("k8s_main")],
      ["after the container was removed", "after", removes],
    ] as const) {
      // Those before a step leave less than those after it.
      if (moment === "before" && !long) continue;
      test(`${what}: the next shim removes what no container uses`, async () => {
        const stateOf = await bed.newDirectory();
        const proxy = await bed.startProxy();
        const first = await bed.startShim({ directory: stateOf, dockerEndpoint: proxy.endpoint });
        const { id: image } = await loadModel();
        const pod = await bed.runPod(first.cri);
        const mounts = [volume(image)];
        const isRemoval = matches === removes;
        const id = isRemoval ? await pod.create({ mounts }) : "";
        const hold = proxy.holdNext(moment, matches);
        const call = isRemoval ? first.cri.RemoveContainer({ container_id: id }) : pod.create({ mounts });
        call.catch(() => undefined);
        // An engine that mounts images itself needs no pin: then there is nothing to be killed at.
        const outcome = await Promise.race([hold.held.then(() => "held"), call.then(() => "done")]);
        hold.release();
        await first.kill();
        if (outcome === "held") await proxy[Symbol.asyncDispose]();
        await using second = await bed.startShim({ directory: stateOf });
        await second.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
        await until("everything is gone", async () => {
          const { pins, volumes } = await made(second);
          return pins.length === 0 && volumes.length === 0;
        });
        await second.cri.RemoveImage({ image: { image } });
        assert.equal(await inspectImage(image), undefined);
      });
    }

    test("a container keeps running and its image stays in use, also after docker container prune", async () => {
      const stateOf = await bed.newDirectory();
      const first = await bed.startShim({ directory: stateOf });
      const { id: image, reference } = await loadModel();
      const pod = await bed.runPod(first.cri);
      const id = await pod.start({ mounts: [volume(image)] });
      const { pins } = await made(first);
      await first.kill();
      for (const pin of pins) assert.equal((await docker("DELETE", `/containers/${pin}`)).status, 204);
      await using second = await bed.startShim({ directory: stateOf });
      await until("the pin is back", async () => (await made(second)).pins.length === pins.length);
      await rejectsWith(second.cri.RemoveImage({ image: { image } }), "FAILED_PRECONDITION");
      assert.equal(await removeImage(reference), false);
      const { stdout } = await second.cri.ExecSync({
        container_id: id,
        cmd: ["cat", "/model/weights/a"],
        timeout: "30",
      });
      assert.equal(stdout.toString(), "one");
      await second.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
      assert.deepEqual(await made(second), nothing);
    });
  });
});
