import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ListedImage } from "../../../src/domain/snapshot.js";
import { LayerSizes } from "../../../src/shim/engine/images.js";
import {
  toImageSnapshot,
  toListedImage as readListedImage,
} from "../../../src/shim/engine/image-snapshot.js";
import { fullImage } from "./full-answers.js";

function toListedImage(answer: unknown): ListedImage {
  const image = readListedImage(answer);
  assert.ok(image !== undefined);
  return image;
}

describe("toImageSnapshot()", () => {
  test("a full answer is read", () => {
    assert.deepEqual(toImageSnapshot(fullImage), {
      id: "sha256:x",
      repoTags: ["a:1"],
      repoDigests: ["a@sha256:y"],
      hasRegistry: true,
      size: 7,
      user: "5",
      stopSignal: "SIGINT",
      labels: { a: "b" },
      architecture: "amd64",
      os: "linux",
      author: "me",
      created: "2024-01-01T00:00:00Z",
      config: fullImage.Config,
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
  test("the digest reference that the containerd store puts among the tags is no tag", () => {
    const digest = `a@sha256:${"0".repeat(64)}`;
    const image = toListedImage({
      Id: "x",
      RepoTags: [digest, "a:1"],
      RepoDigests: [digest],
    });
    assert.deepEqual([image.repoTags, image.repoDigests], [["a:1"], [digest]]);
  });
});

describe("an odd entry of the list of images", () => {
  const odd: Readonly<Record<string, unknown>> = {
    "without an id": { RepoTags: ["a:1"], Size: 1 },
    "with an id that is no text": { Id: 5, RepoTags: ["a:1"] },
    "that is null": null,
    "that is a list": [{ Id: "good" }],
  };
  for (const [what, entry] of Object.entries(odd)) {
    test(`one ${what} is left out`, () => {
      assert.equal(readListedImage(entry), undefined);
    });
  }
});

describe("odd fields of an image", () => {
  const digest = `sha256:${"0".repeat(64)}`;
  for (const [what, read] of [
    ["toListedImage()", toListedImage],
    ["toImageSnapshot()", toImageSnapshot],
  ] as const) {
    test(`${what} takes null and mistyped fields for empty ones`, () => {
      const fields = { RepoTags: [null, 5, "", "a:1"], RepoDigests: null, Labels: null, Config: null };
      const image = read({ Id: "x", ...fields });
      assert.deepEqual([image.repoTags, image.repoDigests, image.size], [["a:1"], [], 0]);
    });

    test(`${what} leaves out names that are none`, () => {
      const fields = {
        RepoTags: ["<none>:<none>", "a:<none>"],
        RepoDigests: ["<none>@<none>", `<none>@${digest}`, digest, `a@${digest}`],
      };
      const image = read({ Id: "x", ...fields });
      assert.deepEqual([image.repoTags, image.repoDigests], [[], [`a@${digest}`]]);
    });

    for (const size of [-1, 1.5, 1e21, "7", null]) {
      test(`${what} takes the size ${size} for unknown`, () => {
        assert.equal(read({ Id: "x", Size: size }).size, 0);
      });
    }
  }
});

const digested = `a@sha256:${"0".repeat(64)}`;

describe("whether a registry has an image", () => {
  const byDigest: readonly (readonly [string, object, boolean])[] = [
    ["a tag and no digest", { RepoTags: ["a:1"], RepoDigests: [] }, false],
    ["a tag and null as digests", { RepoTags: ["a:1"], RepoDigests: null }, false],
    ["a tag and no field for digests", { RepoTags: ["a:1"] }, false],
    ["a tag and a digest", { RepoTags: ["a:1"], RepoDigests: [digested] }, true],
    ["a digest only", { RepoTags: null, RepoDigests: [digested] }, true],
    ["placeholders for names", { RepoTags: ["<none>:<none>"], RepoDigests: ["<none>@<none>"] }, false],
    // The containerd image store says so of an image that is here for another platform only.
    ["a bare digest", { RepoTags: ["a:1"], RepoDigests: [digested.slice(2)] }, true],
  ];
  for (const [what, fields, expected] of byDigest) {
    test(`is ${expected} with ${what}`, () => {
      assert.equal(toListedImage({ Id: "x", ...fields }).hasRegistry, expected, "listed");
      assert.equal(toImageSnapshot({ Id: "x", ...fields }).hasRegistry, expected, "inspected");
    });
  }

  const manifest = (Identity: unknown, changes: object = {}): object => ({
    Kind: "image",
    Available: true,
    ImageData: { Identity },
    ...changes,
  });
  const pulled = { Pull: [{ Repository: "docker.io/library/a" }] };
  const built = { Build: [{ Ref: "x" }] };
  const byIdentity: readonly (readonly [string, readonly object[] | null, boolean])[] = [
    ["was pulled", [manifest(pulled)], true],
    ["was built", [manifest(built)], false],
    ["was loaded", [manifest(undefined)], false],
    ["was built and pushed", [manifest({ ...built, ...pulled })], true],
    ["was pulled for one of its platforms", [manifest(undefined), manifest(pulled)], true],
    ["has no platform that is here", [manifest(undefined, { Available: false })], true],
    ["has attestations only", [manifest(undefined, { Kind: "attestation", ImageData: undefined })], true],
    ["has an empty list of manifests", [], true],
    ["has no list of manifests", null, true],
  ];
  for (const [what, manifests, expected] of byIdentity) {
    test(`is ${expected} for an image of the containerd image store that ${what}`, () => {
      const image = { Id: "x", RepoTags: ["a:1"], RepoDigests: [digested], Manifests: manifests };
      assert.equal(toListedImage(image).hasRegistry, expected);
    });
  }
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
