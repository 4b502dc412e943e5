import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind, ShimError } from "../../../src/shim/lib/errors.js";
import { ImageCache } from "../../../src/shim/images/image-cache.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { turns } from "../../fakes/turns.js";

const never = new AbortController().signal;

function engineWithImage(): {
  readonly engine: FakeEngine;
  readonly id: string;
  readonly inspects: () => number;
} {
  const engine = new FakeEngine();
  const id = engine.images.add({ tags: ["busybox:latest"] });
  return { engine, id, inspects: () => engine.journal.names("engine.inspectImage").length };
}

describe("ImageCache", () => {
  test("asks the engine once, also for concurrent callers", async () => {
    const { engine, id, inspects } = engineWithImage();
    const cache = new ImageCache(engine);
    const images = await Promise.all([cache.get(id, never), cache.get(id, never)]);
    await cache.get(id, never);
    assert.deepEqual(
      images.map((image) => image?.id),
      [id, id],
    );
    assert.equal(inspects(), 1);
  });

  test("asks again after forget(), also when an answer was under way", async () => {
    const { engine, id, inspects } = engineWithImage();
    const cache = new ImageCache(engine);
    const early = cache.get(id, never);
    cache.forget();
    engine.images.add({ id, tags: ["busybox:latest", "busybox:2"] });
    assert.deepEqual((await cache.get(id, never))?.repoTags, ["busybox:latest", "busybox:2"]);
    await early;
    assert.deepEqual((await cache.get(id, never))?.repoTags, ["busybox:latest", "busybox:2"]);
    assert.equal(inspects(), 2);
  });

  test("asks again after a failed inspect, and meanwhile answers what was last known", async () => {
    const { engine, id, inspects } = engineWithImage();
    const cache = new ImageCache(engine);
    engine.failNext("inspectImage", new ShimError("unknown", "broken"));
    assert.equal(await cache.get(id, never), undefined);
    assert.equal((await cache.get(id, never))?.id, id);
    cache.forget();
    engine.failNext("inspectImage", new ShimError("unknown", "broken"));
    assert.equal((await cache.get(id, never))?.id, id);
    assert.equal(inspects(), 3);
  });

  test("remembers that an image is missing until an image event", async () => {
    const { engine, id, inspects } = engineWithImage();
    const cache = new ImageCache(engine);
    engine.images.lose(id);
    assert.equal(await cache.get(id, never), undefined);
    assert.equal(await cache.get(id, never), undefined);
    assert.equal(inspects(), 1);
    engine.images.add({ id, tags: ["busybox:latest"] });
    cache.forget();
    assert.equal((await cache.get(id, never))?.id, id);
  });

  test("a caller that leaves does not take the answer from the others", async () => {
    const { engine, id } = engineWithImage();
    const cache = new ImageCache(engine);
    engine.freeze();
    const leaver = new AbortController();
    const left = cache.get(id, leaver.signal);
    const stayed = cache.get(id, never);
    await turns(2);
    leaver.abort(new ShimError("cancelled", "left"));
    await assert.rejects(left, (error) => isKind(error, "cancelled"));
    engine.up();
    assert.equal((await stayed)?.id, id);
  });

  test("its inspect ends when the last caller has left", async () => {
    const { engine, id } = engineWithImage();
    let ended = false;
    const cache = new ImageCache({
      inspectImage: async (_id, signal) =>
        engine.inspectImage(id, signal).finally(() => {
          ended = true;
        }),
    });
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
