import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LayerSizes } from "../../../src/shim/engine/disk-usage.js";
import { toImageSnapshot, toListedImage } from "../../../src/shim/engine/images.js";

describe("toImageSnapshot()", () => {
  test("a full answer is read", () => {
    const config = {
      User: "5",
      StopSignal: "SIGINT",
      Labels: { a: "b" },
      Volumes: { "/data": {} },
      Env: null,
    };
    const answer = {
      Id: "sha256:x",
      RepoTags: ["a:1"],
      RepoDigests: ["a@sha256:y"],
      Size: 7,
      Architecture: "amd64",
      Os: "linux",
      Author: "me",
      Created: "2024-01-01T00:00:00Z",
      Config: config,
      RootFS: { Type: "layers", Layers: ["sha256:l"] },
      GraphDriver: { Name: "overlay2", Data: { UpperDir: "/u" } },
    };
    assert.deepEqual(toImageSnapshot(answer), {
      id: "sha256:x",
      repoTags: ["a:1"],
      repoDigests: ["a@sha256:y"],
      size: 7,
      user: "5",
      stopSignal: "SIGINT",
      labels: { a: "b" },
      architecture: "amd64",
      os: "linux",
      author: "me",
      created: "2024-01-01T00:00:00Z",
      config,
      layers: ["sha256:l"],
      volumes: ["/data"],
      graphDriverName: "overlay2",
      graphDriver: { UpperDir: "/u" },
    });
  });

  test("the containerd image store names no graph driver", () => {
    const image = toImageSnapshot({ Id: "sha256:x", GraphDriver: { Name: "overlayfs", Data: null } });
    assert.deepEqual([image.graphDriverName, image.graphDriver], ["overlayfs", {}]);
  });

  test("API 1.52 leaves out everything that is empty", () => {
    const image = toImageSnapshot({ Id: "sha256:x" });
    assert.deepEqual(
      [image.repoTags, image.labels, image.layers, image.volumes, image.config],
      [[], {}, [], [], {}],
    );
  });
});

describe("toListedImage()", () => {
  test("placeholders of untagged images are no names", () => {
    const answer = {
      Id: "x",
      RepoTags: ["<none>:<none>"],
      RepoDigests: ["<none>@<none>"],
      Size: 1,
      SharedSize: -1,
    };
    const image = toListedImage(answer);
    assert.deepEqual([image.repoTags, image.repoDigests, image.sharedSize], [[], [], -1]);
    assert.deepEqual(toListedImage({ Id: "x", RepoTags: null, RepoDigests: null }).repoTags, []);
  });

  test("the digest reference that the containerd store puts among the tags is no tag", () => {
    const digest = `a@sha256:${"0".repeat(64)}`;
    const image = toListedImage({ Id: "x", RepoTags: [digest, "a:1"], RepoDigests: [digest] });
    assert.deepEqual([image.repoTags, image.repoDigests], [["a:1"], [digest]]);
  });
});

describe("LayerSizes", () => {
  const base = { Created: 1, CreatedBy: "base", Size: 100 };
  const layer = (name: string, size: number): object => ({ Created: 2, CreatedBy: name, Size: size });

  test("sum() counts shared layers once, and equal ones over different layers twice", async () => {
    const histories = new Map<string, readonly object[]>([
      ["a", [layer("x", 10), base]],
      ["b", [layer("y", 5), layer("empty", 0), base]],
      ["c", [layer("x", 10), { ...base, CreatedBy: "other" }]],
    ]);
    const total = await new LayerSizes().sum([...histories.keys()], (id) =>
      Promise.resolve(histories.get(id)),
    );
    assert.equal(total, 100 + 10 + 5 + 100 + 10);
  });

  test("sum() asks once for each image, and again for one that was gone", async () => {
    const asked: string[] = [];
    const histories = new Map<string, readonly object[]>([["a", [base]]]);
    const sizes = new LayerSizes();
    const sum = async (ids: readonly string[]): Promise<number> =>
      sizes.sum(ids, (id) => {
        asked.push(id);
        return Promise.resolve(histories.get(id));
      });
    assert.equal(await sum(["a", "b"]), 100);
    histories.set("b", [layer("b", 7)]);
    assert.equal(await sum(["a", "b"]), 107);
    assert.equal(await sum(["b"]), 7);
    assert.deepEqual(asked, ["a", "b", "b"]);
  });
});
