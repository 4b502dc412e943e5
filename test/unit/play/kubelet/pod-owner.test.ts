import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { PodOwner } from "../../../../src/play/kubelet/pod-owner.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { type Fixture, makeFixture } from "../fake-cri.js";

const key = { uid: "uid-1" };
const { signal } = new AbortController();
const ignored = (): void => undefined;
const lost = new ShimError("conflict", "another play has taken over the pod");

let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture();
});

const ownerOf = (playId: string): PodOwner => new PodOwner({ ...fixture.deps, playId });
const marks = (): Promise<readonly string[]> => fixture.files.list("/state/uid-1/starting");

/** Whether what `owner` starts may be under way already. */
function isUnfinished(owner: PodOwner): Promise<boolean> {
  return owner.starting(key, { check: () => Promise.resolve(), signal }, (answer) => Promise.resolve(answer));
}

describe("starting()", () => {
  test("starts nothing when the pod is lost between the first look and the mark", async () => {
    const owner = ownerOf("play-1");
    await owner.mark(key, ignored, signal);
    let looks = 0;
    const check = async (): Promise<void> => {
      looks += 1;
      assert.equal((await marks()).length, looks - 1, "the second look comes after the mark");
      if (looks === 2) throw lost;
    };
    await assert.rejects(
      owner.starting(key, { check, signal }, () => assert.fail("it starts something")),
      (error) => error === lost,
    );
    assert.deepEqual(await marks(), []);
  });

  test("that is given up leaves a mark, so that the next play takes the start for unfinished", async () => {
    const owner = ownerOf("play-1");
    await owner.mark(key, ignored, signal);
    const stop = new AbortController();
    const work = (): Promise<void> => {
      stop.abort(lost);
      return Promise.reject(lost);
    };
    const check = (): Promise<void> => Promise.resolve();
    await assert.rejects(owner.starting(key, { check, signal: stop.signal }, work));
    const next = ownerOf("play-2");
    await next.mark(key, ignored, signal);
    assert.equal(await isUnfinished(next), true);
    assert.equal(await isUnfinished(next), false, "once");
    assert.deepEqual(await marks(), []);
  });
});

test("mark() wants a new observation after a wait, also when no mark of an owner was there", async () => {
  await fixture.files.makeDirectory("/state/uid-1/starting/1");
  const waits: string[] = [];
  const marked = ownerOf("play-2").mark(key, (process) => waits.push(process), signal);
  await fixture.clock.advance(1000);
  assert.deepEqual(waits, ["process 1"]);
  await fixture.files.removeTree("/state/uid-1/starting/1");
  await fixture.clock.advance(1000);
  assert.equal(await marked, true);
});
