import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { UnmanagedImages } from "../../../src/shim/images/unmanaged-images.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { recordingLog } from "../../fakes/recording-log.js";

const never = new AbortController().signal;
const minute = 60_000;

/** An engine with the images `a:1` and `b:1`, and a clock. */
class Setting {
  readonly engine = new FakeEngine();
  readonly a = this.engine.images.add({ tags: ["a:1"] });
  readonly b = this.engine.images.add({ tags: ["b:1"] });
  readonly log = recordingLog();
  nowMs = 0;
  readonly images = new UnmanagedImages({ engine: this.engine, now: () => this.nowMs, log: this.log });

  create(name: string, image: string): string {
    return this.engine.containers.create(name, { Image: image, Labels: {}, HostConfig: {} });
  }

  get lists(): number {
    return this.engine.journal.names("engine.listContainers").length;
  }

  async ids(): Promise<readonly string[]> {
    return [...(await this.images.ids(never))].toSorted();
  }
}

describe("UnmanagedImages", () => {
  test("lists once, also for concurrent callers, until forget(), for ten minutes at most", async () => {
    const setting = new Setting();
    setting.create("one", "a:1");
    await Promise.all([setting.ids(), setting.ids()]);
    await setting.ids();
    assert.equal(setting.lists, 1);
    setting.create("two", "b:1");
    setting.images.forget();
    assert.deepEqual(await setting.ids(), [setting.a, setting.b].toSorted());
    setting.nowMs = 10 * minute - 1;
    await setting.ids();
    assert.equal(setting.lists, 2);
    setting.nowMs = 10 * minute;
    await setting.ids();
    assert.equal(setting.lists, 3);
  });

  test("lists again after forget() while a list is under way", async () => {
    const setting = new Setting();
    const early = setting.ids();
    setting.create("one", "a:1");
    setting.images.forget();
    assert.deepEqual(await setting.ids(), [setting.a]);
    await early;
    assert.deepEqual(await setting.ids(), [setting.a]);
    assert.equal(setting.lists, 2);
  });

  test("answers what was known last when the list fails, warns once, and tries again after half a minute", async () => {
    const setting = new Setting();
    setting.create("one", "a:1");
    await setting.ids();
    for (const again of [0, minute]) {
      setting.nowMs = again;
      setting.images.forget();
      setting.engine.failNext("listContainers", new ShimError("timeout", "too slow"));
      assert.deepEqual(await setting.ids(), [setting.a]);
    }
    const said = setting.log.lines.map(({ level, fields }) => [level, fields["err"]]);
    assert.deepEqual(said, [["warn", "too slow"]]);
    setting.nowMs = minute + 29_999;
    setting.create("two", "b:1");
    setting.images.forget();
    assert.deepEqual(await setting.ids(), [setting.a]);
    assert.equal(setting.lists, 3);
    setting.nowMs = minute + 30_000;
    assert.deepEqual(await setting.ids(), [setting.a, setting.b].toSorted());
  });

  test("answers what was known last without an engine, and lists as soon as it is back", async () => {
    const setting = new Setting();
    setting.create("one", "a:1");
    await setting.ids();
    setting.create("two", "b:1");
    setting.images.forget();
    setting.engine.down();
    assert.deepEqual(await setting.ids(), [setting.a]);
    setting.engine.up();
    assert.deepEqual(await setting.ids(), [setting.a, setting.b].toSorted());
    assert.deepEqual(setting.log.lines, []);
  });
});
