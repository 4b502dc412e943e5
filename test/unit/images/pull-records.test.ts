import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PullRecords } from "../../../src/shim/images/pull-records.js";
import type { PullProgress } from "../../../src/shim/ports/engine.js";

const { signal } = new AbortController();

/** A pull that runs until it is told to end. */
function beginPull(records: PullRecords, image: string) {
  let tell: (progress: PullProgress) => void = () => undefined;
  let end: (error?: Error) => void = () => undefined;
  const seen: PullProgress[] = [];
  const engine = records.recorded({
    pullImage: (_image, _credentials, onProgress) => {
      tell = onProgress;
      return new Promise((resolve, reject) => {
        end = (error) => {
          if (error === undefined) resolve();
          else reject(error);
        };
      });
    },
  });
  const ended = engine.pullImage(image, undefined, (progress) => seen.push(progress), signal);
  const say = (layer: string, status: string, current = 0, total = 0): void => {
    tell({ layer, status, current, total });
  };
  return { say, seen, ended, end };
}

const layersOf = (records: PullRecords): readonly string[] =>
  records.running.flatMap(({ layers }) =>
    layers.map(({ id, status, current, total }) => `${id} ${status} ${current}/${total}`),
  );

describe("the records of running pulls", () => {
  test("count downloaded bytes, also after the download, and pass each message on", async () => {
    const records = new PullRecords();
    const { say, seen, ended, end } = beginPull(records, "busybox:1");
    assert.deepEqual(records.running, [{ image: "busybox:1", layers: [] }]);
    say("1", "Pulling from library/busybox");
    say("a", "Pulling fs layer");
    say("b", "Already exists");
    assert.deepEqual(layersOf(records), ["a Pulling fs layer 0/0", "b Already exists 0/0"]);
    say("a", "Downloading", 10, 40);
    assert.deepEqual(layersOf(records)[0], "a Downloading 10/40");
    say("a", "Download complete");
    assert.deepEqual(layersOf(records)[0], "a Download complete 40/40");
    say("a", "Extracting", 5, 40);
    assert.deepEqual(layersOf(records)[0], "a Extracting 40/40");
    say("a", "Extracting", 3); // Seconds, in the containerd image store.
    say("a", "Pull complete");
    say("", "Digest: sha256:1");
    assert.deepEqual(layersOf(records), ["a Pull complete 40/40", "b Already exists 0/0"]);
    assert.equal(seen.length, 9);
    end();
    await ended;
  });

  test("go with the end of the pull and with its failure", async () => {
    const records = new PullRecords();
    const pulls = ["a", "b", "a"].map((image) => beginPull(records, image));
    const found = records.running.map(({ image }) => image);
    assert.deepEqual(found, ["a", "b", "a"]);
    pulls[0]?.end();
    await pulls[0]?.ended;
    pulls[1]?.end(new Error("planned"));
    await assert.rejects(pulls[1]?.ended ?? Promise.resolve(), /planned/);
    assert.deepEqual(records.running, [{ image: "a", layers: [] }]);
    pulls[2]?.end();
    await pulls[2]?.ended;
    assert.deepEqual(records.running, []);
  });

  test("have limits for pulls, layers and texts; the pulls go on", async () => {
    const records = new PullRecords();
    const [first] = [beginPull(records, "x".repeat(513)), beginPull(records, "first")].slice(1);
    for (let serial = 0; serial < 130; serial += 1) first?.say(`layer ${serial}`, "Waiting");
    first?.say("layer 0", "y".repeat(1000));
    for (let serial = 0; serial < 16; serial += 1) beginPull(records, `${serial}`);
    assert.equal(records.running.length, 16);
    assert.equal(records.running[0]?.image, "first");
    assert.equal(records.running[0].layers.length, 128);
    assert.equal(records.running[0].layers[0]?.status.length, 64);
    assert.equal(first?.seen.length, 131);
    first.end();
    await first.ended;
    assert.equal(records.running.length, 15);
  });
});
