import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orAbort } from "../../../../src/lib/abort.js";
import { SingleFlight } from "../../../../src/lib/sync/single-flight.js";
import { turns } from "../../../fakes/turns.js";

const never = new AbortController().signal;

describe("SingleFlight", () => {
  test("run() shares the work and its result among concurrent callers of one key", async () => {
    const flights = new SingleFlight<number>();
    let runs = 0;
    const work = async (): Promise<number> => {
      await turns(1);
      return (runs += 1);
    };
    assert.deepEqual(
      await Promise.all([flights.run("k", never, work), flights.run("k", never, work)]),
      [1, 1],
    );
    assert.equal(await flights.run("k", never, work), 2, "a later call begins anew");
  });

  test("run() keeps different keys apart", async () => {
    const flights = new SingleFlight<string>();
    const run = (key: string): Promise<string> => flights.run(key, never, () => turns(1).then(() => key));
    assert.deepEqual(await Promise.all([run("a"), run("b")]), ["a", "b"]);
  });

  test("run() gives a failure to all callers and forgets it", async () => {
    const flights = new SingleFlight<string>();
    const fail = (): Promise<string> => turns(1).then(() => Promise.reject(new Error("broken")));
    const results = await Promise.allSettled([flights.run("k", never, fail), flights.run("k", never, fail)]);
    assert.deepEqual(
      results.map((result) => result.status),
      ["rejected", "rejected"],
    );
    assert.equal(await flights.run("k", never, () => Promise.resolve("fine")), "fine");
  });

  test("one caller that leaves does not stop the work of the others", async () => {
    const flights = new SingleFlight<string>();
    const leaver = new AbortController();
    let workSignal: AbortSignal | undefined;
    const work = async (signal: AbortSignal): Promise<string> => {
      workSignal = signal;
      await turns(3);
      return "done";
    };
    const left = flights.run("k", leaver.signal, work);
    const stayed = flights.run("k", never, work);
    leaver.abort(new Error("left"));
    await assert.rejects(left, /left/);
    assert.equal(workSignal?.aborted, false);
    assert.equal(await stayed, "done");
  });

  test("the work is cancelled when the last caller has left, and the next caller begins anew", async () => {
    const flights = new SingleFlight<string>();
    const [one, two] = [new AbortController(), new AbortController()];
    let workSignal: AbortSignal | undefined;
    const hang = (signal: AbortSignal): Promise<string> => {
      workSignal = signal;
      return orAbort(new Promise<string>(() => undefined), signal);
    };
    const settled = Promise.allSettled([
      flights.run("k", one.signal, hang),
      flights.run("k", two.signal, hang),
    ]);
    one.abort(new Error("one left"));
    await turns(1);
    assert.equal(workSignal?.aborted, false);
    two.abort(new Error("two left"));
    const results = await settled;
    assert.deepEqual(
      results.map((result) => result.status),
      ["rejected", "rejected"],
    );
    assert.equal(workSignal.aborted, true);
    assert.equal(await flights.run("k", never, () => Promise.resolve("anew")), "anew");
  });
});
