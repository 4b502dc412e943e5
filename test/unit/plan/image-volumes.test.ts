import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ImageSnapshot } from "../../../src/domain/snapshot.js";
import {
  engineImageSource,
  imageLayers,
  imageVolumeMount,
  imageVolumeNeeds,
  overlayOptions,
  standInsBelow,
} from "../../../src/shim/plan/image-volumes.js";
import { imageSpec } from "../../fakes/requests.js";
import { mount, nodeFacts } from "./builders.js";

const imageId = `sha256:${"ab".repeat(32)}`;

function engine(engineVersion: string, apiMinor: number, imageStore: "graph" | "containerd" = "graph") {
  return nodeFacts({ engineVersion, apiMinor, imageStore });
}

describe("engineImageSource()", () => {
  const short = "abababababab";
  // 2 * (64 + 5 + 12 + 5 + 41) = 254
  const longest = `/${"x".repeat(40)}`;
  for (const [what, facts, path, times, expected] of [
    ["no image mounts before API 1.48", engine("27.5.1", 47), "/m", 1, undefined],
    ["a whole id before 28.3.1", engine("28.3.0", 50), "/m", 1, imageId],
    ["not twice in a container before 29", engine("28.5.2", 51), "/m", 2, undefined],
    ["a short id where names are limited", engine("29.1.5", 51), longest, 2, short],
    ["and where they may be", engine("28.5.2", 51), longest, 1, short],
    ["nothing for a path that is too long there", engine("28.5.2", 51), `${longest}x`, 1, undefined],
    ["bytes are counted, not characters", engine("28.5.2", 51), `/${"ä".repeat(21)}`, 1, undefined],
    ["the containerd store has no limit", engine("29.1.5", 51, "containerd"), `${longest}x`, 2, imageId],
    ["nor have later engines", engine("29.2.0", 51), `${longest}x`, 2, imageId],
  ] as const) {
    test(what, () => assert.equal(engineImageSource(imageId, path, { times }, facts), expected));
  }
});

describe("imageLayers()", () => {
  const image = (graphDriver: Record<string, string>, graphDriverName = "overlay2") =>
    ({ graphDriver, graphDriverName }) as unknown as ImageSnapshot;
  const rootless = nodeFacts({ security: { ...nodeFacts().security, rootless: true } });
  for (const [what, snapshot, facts, expected] of [
    ["the top one first", image({ UpperDir: "/a", LowerDir: "/b:/c" }), nodeFacts(), ["/a", "/b", "/c"]],
    ["of a single layer", image({ UpperDir: "/a" }), nodeFacts(), ["/a"]],
    ["of another driver", image({ UpperDir: "/a" }, "btrfs"), nodeFacts(), undefined],
    ["of the containerd image store", image({}, ""), nodeFacts(), undefined],
    ["of a rootless engine", image({ UpperDir: "/a" }), rootless, undefined],
  ] as const) {
    test(what, () => assert.deepEqual(imageLayers(snapshot, facts), expected));
  }
});

describe("overlayOptions()", () => {
  const directory = (path: string, shortPath?: string) => ({ path, shortPath });
  /** So many directories that `lowerdir=` and their paths, of 100 bytes each, have `bytes` bytes. */
  function directories(bytes: number, shortPath?: string) {
    const found: ReturnType<typeof directory>[] = [];
    for (let left = bytes - "lowerdir=".length; left > 0; left -= 101)
      found.push(directory(`/${"d".repeat(Math.min(left, 100) - 1)}`, shortPath));
    return found;
  }

  test("merge several directories as they are, and a single one with the empty directory", () => {
    const overlay = { type: "overlay", device: "overlay" };
    const merged = overlayOptions([directory("/a"), directory("/b")], "/empty");
    assert.deepEqual(merged, { ...overlay, o: "ro,lowerdir=/a:/b" });
    assert.equal(overlayOptions([directory("/a")], "/empty")?.["o"], "ro,lowerdir=/a:/empty");
  });

  test("no option is longer than the kernel reads", () => {
    assert.equal(overlayOptions(directories(4095), "/empty")?.["o"]?.length, 4095 + "ro,".length);
    assert.equal(overlayOptions(directories(4096), "/empty"), undefined);
  });

  test("short names are taken where the full ones are too long", () => {
    const options = overlayOptions(directories(4200, "/l/X"), "/empty")?.["o"] ?? "";
    assert.match(options, /^ro,lowerdir=(\/l\/X:)+\/l\/X$/);
    assert.doesNotMatch(overlayOptions(directories(4000, "/l/X"), "/empty")?.["o"] ?? "", /\/l\/X/);
  });

  test("are none for paths that cannot be said", () => {
    for (const path of ["/a,b", "/a:b", "/a\\b"])
      assert.equal(overlayOptions([directory(path), directory("/c")], "/empty"), undefined, path);
  });
});

test("standInsBelow() names what Docker puts below a directory, from there", () => {
  assert.ok(standInsBelow("").has("etc/hosts"));
  assert.ok(standInsBelow("").has(".dockerenv"));
  assert.deepEqual(standInsBelow("dev"), new Set(["console", "pts", "shm"]));
  assert.deepEqual(standInsBelow("usr/etc"), new Set());
});

test("imageVolumeNeeds() finds image volumes among the mounts, with normalized sub paths", () => {
  const image = imageSpec("model:1");
  const mounts = [
    mount(),
    mount({ image: imageSpec(""), container_path: "/b" }),
    mount({ image, host_path: "", container_path: "/m", image_sub_path: "./a//b/" }),
  ];
  const expected = { index: 2, image: "model:1", subPath: "a/b", containerPath: "/m" };
  assert.deepEqual(imageVolumeNeeds(mounts), [expected]);
  const hidden = [mount({ image, host_path: "", container_path: "/a" }), mount({ container_path: "/a/" })];
  const [need, ...others] = imageVolumeNeeds([...hidden, mount({ image, host_path: "" })]);
  assert.deepEqual([need?.index, need?.containerPath, others], [2, "/data", []]);
});

test("imageVolumeMount() mounts volumes read-only, without copying what they hide, and images", () => {
  const of = (from: Parameters<typeof imageVolumeMount>[1]["from"], subPath = "") =>
    imageVolumeMount("/m", { imageId, from, subPath });
  const volume = { Type: "volume", Source: "v", Target: "/m", ReadOnly: true };
  const image = { Type: "image", Source: "abc", Target: "/m" };
  assert.deepEqual(of({ volume: "v" }), { ...volume, VolumeOptions: { NoCopy: true } });
  const VolumeOptions = { NoCopy: true, Subpath: "a/b" };
  assert.deepEqual(of({ volume: "v" }, "a/b"), { ...volume, VolumeOptions });
  assert.deepEqual(of({ image: "abc" }), image);
  assert.deepEqual(of({ image: "abc" }, "a"), { ...image, ImageOptions: { Subpath: "a" } });
});
