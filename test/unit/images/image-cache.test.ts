import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind, ShimError } from "../../../src/lib/errors.js";
import { ImageCache } from "../../../src/shim/images/image-cache.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { turns, withResolvers } from "../../fakes/turns.js";

const never = new AbortController().signal;

/** `link.isLive` and `link.nowMs` may be changed. */
function bed() {
  const engine = new FakeEngine();
  const id = engine.images.add({ tags: ["busybox:latest"] });
  const link = { isLive: true, nowMs: 0 };
  const cache = new ImageCache({ engine, isLive: () => link.isLive, now: () => link.nowMs });
  return { engine, id, cache, link, inspects: () => engine.journal.names("engine.inspectImage").length };
}

describe("ImageCache.get()", () => {
  test("asks for an image with new names after forget(), also when an answer was under way", async () => {
    const { engine, id, cache, inspects } = bed();
    const early = cache.get(id, never);
    cache.forget();
    engine.images.add({ id, tags: ["busybox:latest", "busybox:2"] });
    await cache.get(id, never);
    await early;
    assert.deepEqual((await cache.get(id, never))?.repoTags, ["busybox:latest", "busybox:2"]);
    assert.equal(inspects(), 2);
  });

  test("asks again after a failed inspect, and meanwhile answers what was last known", async () => {
    const { engine, id, cache, inspects } = bed();
    engine.failNext("inspectImage", new ShimError("unknown", "broken"));
    assert.equal(await cache.get(id, never), undefined);
    assert.equal((await cache.get(id, never))?.id, id);
    cache.forget();
    engine.failNext("inspectImage", new ShimError("unknown", "broken"));
    assert.equal((await cache.get(id, never))?.id, id);
    assert.equal(inspects(), 3);
  });

  test("remembers that an image is missing until an image event", async () => {
    const { engine, id, cache, inspects } = bed();
    engine.images.lose(id);
    assert.equal(await cache.get(id, never), undefined);
    assert.equal(await cache.get(id, never), undefined);
    assert.equal(inspects(), 1);
    engine.images.add({ id, tags: ["busybox:latest"] });
    cache.forget();
    assert.equal((await cache.get(id, never))?.id, id);
  });

  test("makes everything stale when the image of an older answer is missing", async () => {
    const { engine, id, cache, inspects } = bed();
    const other = engine.images.add({ tags: ["other:1"] });
    await cache.get(other, never);
    await cache.get(id, never);
    cache.forget();
    await cache.get(other, never);
    engine.images.lose(id);
    for (let count = 0; count < 3; count += 1) {
      assert.equal(await cache.get(id, never), undefined);
      await cache.get(other, never);
    }
    assert.equal(inspects(), 6, "the other one once more, and the missing one twice");
  });

  test("asks once for an image with many names, and always has what a reference needs of them", async () => {
    const { engine, id, cache, inspects } = bed();
    const digest = (repository: string, index: number): string =>
      `${repository}@sha256:${String(index).padStart(64, "0")}`;
    const many = Array.from({ length: 500 }, (_, index) => digest("b", index));
    const tags = many.map((_, index) => `b:${String(index)}`);
    const snapshot = { user: "u".repeat(17_000), repoDigests: [...many, digest("a", 1), digest("b", 501)] };
    engine.images.add({ id, tags, snapshot });
    const first = await cache.get(id, never);
    const kept = [first?.repoTags, first?.repoDigests, first?.user];
    assert.deepEqual(kept, [[tags[0]], [digest("b", 0), digest("a", 1)], ""]);
    assert.equal(await cache.get(id, never), first);
    assert.equal(inspects(), 1);
    cache.forget();
    engine.failNext("inspectImage", new ShimError("unknown", "broken"));
    assert.equal(await cache.get(id, never), first, "also when the engine fails");
    assert.equal((await cache.find(id, never))?.user.length, 17_000, "find() has everything");
  });

  test("keeps no more names than 16 Ki characters", async () => {
    const { engine, id, cache, inspects } = bed();
    const repoDigests = Array.from({ length: 40 }, (_, index) => `${index}${"n".repeat(1000)}@sha256:0`);
    engine.images.add({ id, tags: ["busybox:latest"], snapshot: { repoDigests } });
    assert.equal((await cache.get(id, never))?.repoDigests.length, 16);
    await cache.get(id, never);
    assert.equal(inspects(), 1);
  });

  test("asks for what is a minute old, and answers it when the engine does not", async () => {
    const { engine, id, cache, link, inspects } = bed();
    await cache.get(id, never);
    link.nowMs = 59_999;
    await cache.get(id, never);
    assert.equal(inspects(), 1);
    link.nowMs = 60_000;
    engine.failNext("inspectImage", new ShimError("unknown", "broken"));
    assert.equal((await cache.get(id, never))?.id, id);
    engine.images.add({ id, tags: ["busybox:2"] });
    assert.deepEqual((await cache.get(id, never))?.repoTags, ["busybox:2"]);
    assert.equal(inspects(), 3);
  });

  test("its inspect ends when the last caller has left", async () => {
    const { engine, id, cache } = bed();
    let ended = false;
    const inspect = engine.inspectImage.bind(engine);
    engine.inspectImage = async (...args) => inspect(...args).finally(() => (ended = true));
    engine.freeze();
    const caller = new AbortController();
    const waiting = cache.get(id, caller.signal);
    await turns(2);
    caller.abort(new ShimError("cancelled", "left"));
    await assert.rejects(waiting, (error) => isKind(error, "cancelled"));
    await turns(1);
    assert.equal(ended, true);
    engine.up();
    assert.equal((await cache.get(id, never))?.id, id);
  });
});

describe("ImageCache.find()", () => {
  test("always asks for an image that was absent, also when get() knows that", async () => {
    const { engine, id, cache } = bed();
    engine.images.lose(id);
    assert.equal(await cache.get(id, never), undefined);
    assert.equal(await cache.find("busybox", never), undefined);
    engine.images.add({ id, tags: ["busybox:latest"] });
    assert.equal((await cache.find("busybox", never))?.id, id);
    assert.equal((await cache.find(id, never))?.id, id);
  });

  test("an inspect that ends late does not replace a later one", async () => {
    const { engine, id, cache, inspects } = bed();
    const inspect = engine.inspectImage.bind(engine);
    const { promise: held, resolve: release } = withResolvers();
    engine.inspectImage = async (...args) => {
      engine.inspectImage = inspect;
      const image = await inspect(...args);
      await held;
      return image;
    };
    const early = cache.find("busybox", never);
    await turns(2);
    cache.forget();
    engine.images.add({ id, tags: ["busybox:latest", "busybox:2"] });
    await cache.find("busybox", never);
    release();
    await early;
    assert.deepEqual((await cache.find("busybox", never))?.repoTags, ["busybox:latest", "busybox:2"]);
    assert.equal(inspects(), 2);
  });

  test("throws an error of the engine, and never answers what was known before", async () => {
    const { engine, cache } = bed();
    await cache.find("busybox", never);
    cache.forget();
    engine.failNext("inspectImage", new ShimError("unavailable", "broken"));
    await assert.rejects(cache.find("busybox", never), { message: "broken" });
  });

  test("answers from memory for no image whose user is of any size", async () => {
    const { engine, id, cache, inspects } = bed();
    engine.images.add({ id, tags: ["busybox:latest"], snapshot: { user: "u".repeat(17_000) } });
    for (let count = 0; count < 2; count += 1)
      assert.equal((await cache.find("busybox", never))?.user.length, 17_000);
    assert.equal(inspects(), 2);
  });
});

/** Both ask the engine again in the same cases. */
for (const [verb, ask, call] of [
  ["find()", (cache: ImageCache) => cache.find("busybox", never), "engine.inspectImage"],
  ["list()", (cache: ImageCache) => cache.list(never), "engine.listImages"],
] as const) {
  test(`ImageCache.${verb} asks once until forget(), for a minute at most, and always while no events arrive`, async () => {
    const { engine, cache, link } = bed();
    const asksAgain = async (): Promise<boolean> => {
      const before = engine.journal.names(call).length;
      await ask(cache);
      return engine.journal.names(call).length > before;
    };
    const early = ask(cache);
    cache.forget();
    await early;
    assert.deepEqual([await asksAgain(), await asksAgain()], [true, false], "forgotten under way");
    cache.forget();
    assert.deepEqual([await asksAgain(), await asksAgain()], [true, false], "forgotten");
    link.nowMs = 59_999;
    assert.equal(await asksAgain(), false);
    link.nowMs = 60_000;
    assert.deepEqual([await asksAgain(), await asksAgain()], [true, false], "some changes make no event");
    link.isLive = false;
    assert.deepEqual([await asksAgain(), await asksAgain()], [true, true]);
  });
}

test("ImageCache.list() is not kept when its names take megabytes", async () => {
  const { engine, cache } = bed();
  for (let count = 0; count < 9; count += 1) engine.images.add({ tags: [`${count}${"n".repeat(1 << 20)}`] });
  for (let count = 0; count < 2; count += 1) await cache.list(never);
  assert.equal(engine.journal.names("engine.listImages").length, 2);
});
