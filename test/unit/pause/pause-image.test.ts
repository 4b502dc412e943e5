import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { readFile } from "node:fs/promises";
import { ShimError } from "../../../src/lib/errors.js";
import {
  builtinPauseImage,
  builtinPauseReference,
  type PauseImageDeps,
  type PauseImageOptions,
  PauseImages,
} from "../../../src/shim/pause/pause-image.js";
import { portForwardArchive, portForwardPath } from "../../../src/shim/pause/port-forward-program.js";
import { contentOf, jsonOf, readTar } from "./read-archive.js";
import { turns, withResolvers } from "../../fakes/turns.js";

const reference = "registry.example/pause:3";
const never = new AbortController().signal;

/**
 * An engine with a set of images, a registry that may be down, a clock that the test moves, and a record of
 * all calls.
 */
class World implements PauseImageDeps {
  readonly images = new Set<string>();
  readonly calls: string[] = [];
  readonly loaded: Buffer[] = [];
  readonly lines: string[] = [];
  pullError: Error | undefined;
  inspectError: Error | undefined;
  loadError: Error | undefined;
  /** A pull waits for this (or its signal). */
  pullGate: Promise<void> = Promise.resolve();
  nowMs = 0;
  architecture = "amd64";
  readonly log: PauseImageDeps["log"] = {
    info: (_fields: unknown, message?: string) => this.lines.push(`info ${message ?? ""}`),
    warn: (fields: unknown, message?: string) =>
      this.lines.push(`warn ${message ?? ""} ${JSON.stringify(fields)}`),
  };

  now(): number {
    return this.nowMs;
  }

  inspectImage(name: string): Promise<{ id: string } | undefined> {
    this.calls.push(`inspect ${name}`);
    if (this.inspectError !== undefined) return Promise.reject(this.inspectError);
    return Promise.resolve(this.images.has(name) ? { id: `sha256:${name}` } : undefined);
  }

  async pull(name: string, signal: AbortSignal): Promise<void> {
    this.calls.push(`pull ${name}`);
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(ShimError.from(signal.reason));
      });
    });
    await Promise.race([this.pullGate, aborted]);
    if (this.pullError !== undefined) throw this.pullError;
    this.images.add(name);
  }

  loadImage(archive: Buffer): Promise<void> {
    this.calls.push("load");
    if (this.loadError !== undefined) return Promise.reject(this.loadError);
    this.loaded.push(archive);
    this.images.add(builtinPauseReference);
    return Promise.resolve();
  }

  /** The calls since the last time. */
  takeCalls(): string[] {
    return this.calls.splice(0);
  }
}

function pauseImages(world: World, options: Partial<PauseImageOptions> = {}): PauseImages {
  return new PauseImages(world, { reference, builtin: "fallback", ...options });
}

/** A world whose registry cannot be reached. */
function airGapped(): World {
  const world = new World();
  world.pullError = new ShimError("unavailable", "no route to registry", { from: "registry" });
  return world;
}

const inspectConfigured = `inspect ${reference}`;
const inspectBuiltin = `inspect ${builtinPauseReference}`;
const pullConfigured = `pull ${reference}`;

describe("PauseImages.ensure()", () => {
  test("asks once for the configured image where it is present, again after invalidate(), and then pulls", async () => {
    const world = new World();
    world.images.add(reference);
    const images = pauseImages(world);
    assert.equal(await images.ensure(never), reference);
    world.nowMs = 1e9;
    assert.equal(await images.ensure(never), reference);
    assert.deepEqual(world.takeCalls(), [inspectConfigured]);
    world.images.clear();
    images.invalidate();
    assert.equal(await images.ensure(never), reference);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured]);
  });

  test("an engine that cannot be reached is not remembered as a failed pull", async () => {
    const world = new World();
    world.pullError = new ShimError("unavailable", "connection closed without an answer", { answer: "lost" });
    const images = pauseImages(world, { builtin: "forbidden" });
    await assert.rejects(images.ensure(never), /connection closed/);
    world.pullError = undefined;
    assert.equal(await images.ensure(never), reference);
  });

  test("does not remember an answer that invalidate() overtook", async () => {
    const world = new World();
    const { promise, resolve: open } = withResolvers();
    world.pullGate = promise;
    const images = pauseImages(world);
    const first = images.ensure(never);
    await turns(1);
    images.invalidate();
    open();
    assert.equal(await first, reference);
    world.takeCalls();
    await images.ensure(never);
    assert.deepEqual(world.takeCalls(), [inspectConfigured]);
  });

  test("pulls an absent image once for all who wait", async () => {
    const world = new World();
    const images = pauseImages(world);
    const answers = await Promise.all([images.ensure(never), images.ensure(never), images.ensure(never)]);
    assert.deepEqual(answers, [reference, reference, reference]);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured]);
  });

  test("loads the built-in image when the pull fails, and says why once", async () => {
    const world = airGapped();
    const images = pauseImages(world);
    assert.equal(await images.ensure(never), builtinPauseReference);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured, inspectBuiltin, "load"]);
    assert.deepEqual(world.loaded, [(await builtinPauseImage("amd64")).archive]);
    images.invalidate();
    world.takeCalls();
    await images.ensure(never);
    assert.ok(!world.takeCalls().includes("load"), "it is present");
    const warnings = world.lines.filter((line) => line.startsWith("warn"));
    assert.equal(warnings.length, 1);
    assert.match(String(warnings[0]), /registry\.example\/pause:3.*no route to registry/);
  });

  test("asks the engine nothing for a minute after a failed pull, then pulls again", async () => {
    const world = airGapped();
    const images = pauseImages(world);
    await images.ensure(never);
    world.takeCalls();
    world.nowMs = 59_999;
    assert.equal(await images.ensure(never), builtinPauseReference);
    assert.deepEqual(world.takeCalls(), []);
    world.nowMs = 60_000;
    world.pullError = undefined;
    assert.equal(await images.ensure(never), reference);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured]);
    assert.ok(world.lines.includes("info using the configured pause image again"));
  });

  test("looks within the minute for an image that came or went, and pulls none; one that came is not forgotten", async () => {
    const world = airGapped();
    const images = pauseImages(world);
    const callsOf = async (expected: string): Promise<readonly string[]> => {
      images.invalidate();
      assert.equal(await images.ensure(never), expected);
      return world.takeCalls();
    };
    await images.ensure(never);
    world.takeCalls();
    world.images.clear();
    assert.deepEqual(await callsOf(builtinPauseReference), [inspectConfigured, inspectBuiltin, "load"]);
    world.images.add(reference);
    assert.deepEqual(await callsOf(reference), [inspectConfigured]);
    world.images.delete(reference);
    assert.ok((await callsOf(builtinPauseReference)).includes(pullConfigured));
  });

  test("fails with the pull's kind when the built-in image is forbidden, and pulls once a minute", async () => {
    const world = airGapped();
    const images = pauseImages(world, { builtin: "forbidden" });
    const expected = {
      kind: "unavailable",
      message: `ensure pause image "${reference}": no route to registry`,
    };
    await assert.rejects(images.ensure(never), expected);
    await assert.rejects(images.ensure(never), expected);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured, inspectConfigured]);
    world.nowMs = 60_000;
    await assert.rejects(images.ensure(never), expected);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured]);
    world.images.add(reference);
    assert.equal(await images.ensure(never), reference);
  });

  test("fails when the engine cannot say whether the image is there, and does not pull", async () => {
    const world = new World();
    world.inspectError = new ShimError("unavailable", "connect: refused");
    const message = `ensure pause image "${reference}": connect: refused`;
    await assert.rejects(pauseImages(world).ensure(never), { kind: "unavailable", message });
    assert.deepEqual(world.takeCalls(), [inspectConfigured]);
  });

  test("names both reasons when the built-in image cannot be loaded either, and tries that again", async () => {
    const world = airGapped();
    world.loadError = new ShimError("exhausted", "no space left on device");
    const images = pauseImages(world);
    const both =
      /^ensure pause image ".*": no route to registry; use built-in image ".*": no space left on device$/;
    await assert.rejects(images.ensure(never), { kind: "unavailable", message: both });
    world.loadError = undefined;
    assert.equal(await images.ensure(never), builtinPauseReference);
  });

  test("names the architecture that there is no built-in image for", async () => {
    const world = airGapped();
    world.architecture = "s390x";
    await assert.rejects(pauseImages(world).ensure(never), /no route to registry; .*architecture "s390x"$/);
  });

  test("loads the built-in image without a pull when it is the configured one, even if forbidden as stand-in", async () => {
    const world = airGapped();
    const images = pauseImages(world, { reference: builtinPauseReference, builtin: "forbidden" });
    assert.equal(await images.ensure(never), builtinPauseReference);
    assert.deepEqual(world.takeCalls(), [inspectBuiltin, "load"]);
  });

  test("a pull that was cancelled by its callers is not remembered as failed", async () => {
    const world = new World();
    world.pullGate = withResolvers().promise;
    const images = pauseImages(world);
    const leaver = new AbortController();
    const left = images.ensure(leaver.signal);
    await turns(1);
    leaver.abort(new ShimError("cancelled", "caller left"));
    await assert.rejects(left, { kind: "cancelled" });
    await turns(1);
    world.pullGate = Promise.resolve();
    world.takeCalls();
    assert.equal(await images.ensure(never), reference);
    assert.deepEqual(world.takeCalls(), [inspectConfigured, pullConfigured]);
  });

  test("refuses a caller that has left already, even with the answer at hand", async () => {
    const world = new World();
    world.images.add(reference);
    const images = pauseImages(world);
    await images.ensure(never);
    const reason = new ShimError("cancelled", "caller left");
    await assert.rejects(images.ensure(AbortSignal.abort(reason)), reason);
  });
});

describe("PauseImages.isPinned()", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const cases = [
    { configured: "busybox", names: ["docker.io/library/busybox:latest"], pinned: true },
    { configured: "docker.io/library/busybox:1", names: ["other:1", "busybox:1"], pinned: true },
    { configured: "busybox:1", names: ["busybox:2"], pinned: false },
    { configured: `busybox:1@${digest}`, names: [`busybox@${digest}`], pinned: true },
    { configured: digest, names: [digest], pinned: true },
    { configured: "busybox", names: [builtinPauseReference], pinned: true },
    { configured: "busybox", names: [], pinned: false },
  ];
  for (const { configured, names, pinned } of cases) {
    const short = `${configured.slice(0, 28)} and ${names.join(", ").slice(0, 33)}`;
    test(`is ${pinned} for ${short}`, () => {
      assert.equal(pauseImages(new World(), { reference: configured }).isPinned(names), pinned);
    });
  }
});

describe("builtinPauseImage()", () => {
  // An engine that has the name is never given the image again: these may change only together with the tag.
  for (const [architecture, kernelName, digest] of [
    ["amd64", "x86_64", "7627d01d781af551bf3baf1e3e91612690f79abc2337c9e613a46e6136026e7b"],
    ["arm64", "aarch64", "260b7b7fae8e14a441d9eef86809b2b09335854ac7fb873a85299451fbc51897"],
  ] as const) {
    test(`has the shipped programs of ${architecture}, a user without rights and no labels`, async () => {
      const built = await builtinPauseImage(architecture);
      assert.deepEqual(built, await builtinPauseImage(kernelName));
      assert.equal(built.reference, "dockershim.local/pause:3");
      assert.equal(builtinPauseReference, built.reference);
      const members = await readTar(built.archive);
      const [manifest] = jsonOf(members, "manifest.json") as {
        Config: string;
        RepoTags: string[];
        Layers: [string];
      }[];
      assert.ok(manifest);
      assert.deepEqual(manifest.RepoTags, [built.reference]);
      assert.equal(manifest.Config, `blobs/sha256/${digest}`, "give changed content a new tag");
      const image = jsonOf(members, manifest.Config) as { architecture: string; config: unknown };
      assert.equal(image.architecture, architecture);
      assert.deepEqual(image.config, { Entrypoint: ["/pause"], User: "65535:65535" });
      const layer = await readTar(contentOf(members, manifest.Layers[0]));
      const path = portForwardPath.slice(1);
      assert.deepEqual([...layer.keys()], ["pause", path]);
      for (const [member, program] of Object.entries({ pause: "pause", [path]: "port-forward" })) {
        assert.equal(layer.get(member)?.header.mode, 0o755);
        const shipped = new URL(`../../../native/bin/${program}-${architecture}`, import.meta.url);
        assert.deepEqual(contentOf(layer, member), await readFile(shipped));
      }
      // Sandboxes of other images get the same file in the same place.
      const copied = await readTar(await portForwardArchive(architecture));
      assert.deepEqual(contentOf(copied, path), contentOf(layer, path));
      assert.equal(copied.get(path)?.header.mode, 0o755);
    });
  }

  test("refuses an architecture that it has no program for", async () => {
    await assert.rejects(builtinPauseImage("riscv64"), { kind: "unsupported", message: /"riscv64"/ });
  });
});
