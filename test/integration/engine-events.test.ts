import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { EngineEvent } from "../../src/shim/ports/engine.js";
import { anySignal, testLabel } from "../support/engine-contract.js";
import { engineOfSuite, reasonToSkip } from "./engine-support.js";

describe("DockerEngine, events", { skip: await reasonToSkip(), timeout: 120_000 }, () => {
  const at = engineOfSuite();

  /** Collects events until `enough`; the subscription is open when this has resolved. */
  async function subscribe(): Promise<{
    readonly events: readonly EngineEvent[];
    until(enough: (events: readonly EngineEvent[]) => boolean): Promise<void>;
    end(): Promise<void>;
  }> {
    const stop = new AbortController();
    const events: EngineEvent[] = [];
    let ended: Promise<void> | undefined;
    await new Promise<void>((resolve, reject) => {
      const read = async (): Promise<void> => {
        for await (const event of at.engine.events(testLabel, resolve, stop.signal)) events.push(event);
      };
      ended = read();
      ended.catch(reject);
    });
    return {
      events,
      until: async (enough) => {
        while (!enough(events)) await delay(10, undefined, { signal: anySignal() });
      },
      end: async () => {
        stop.abort();
        await ended;
      },
    };
  }

  test("the life of a labelled container is told, its execs are not, and of others only that they come and go", async () => {
    const subscription = await subscribe();
    try {
      await using foreign = await at.container({ Labels: {} });
      await at.engine.startContainer(foreign.id, anySignal());
      const container = await at.container();
      await at.engine.startContainer(container.id, anySignal());
      const options = { command: ["true"], tty: false, stdin: false, stdout: true, stderr: true };
      const execId = await at.engine.createExec(container.id, options, anySignal());
      const streams = await at.engine.startExec(execId, options, anySignal());
      await streams.readOutput(() => undefined);
      streams.close();
      await container[Symbol.asyncDispose]();
      const own = (): readonly string[] =>
        subscription.events.filter(({ id }) => id === container.id).map(({ action }) => action);
      await subscription.until(() => own().includes("destroy"));
      assert.deepEqual(own(), ["create", "start", "die", "destroy"]);
      await foreign[Symbol.asyncDispose]();
      const foreignEvents = (): readonly string[] =>
        subscription.events
          .filter(({ id }) => id === foreign.id)
          .map(({ type, action }) => `${type} ${action}`);
      await subscription.until(() => foreignEvents().length > 1);
      assert.deepEqual(foreignEvents(), ["otherContainer create", "otherContainer destroy"]);
      assert.ok(subscription.events.every(({ type, id }) => type === "image" || /^[0-9a-f]{64}$/.test(id)));
    } finally {
      await subscription.end();
    }
  });

  test("a loaded and a removed image are told", async () => {
    const subscription = await subscribe();
    try {
      const reference = `dockershim.local/engine-events-${at.run}:1`;
      await at.engine.loadImage(await at.archive(reference, "events"), anySignal());
      const image = await at.engine.inspectImage(reference, anySignal());
      await at.engine.removeImage(reference, anySignal());
      const seen = (action: string): boolean =>
        subscription.events.some(
          (event) => event.type === "image" && event.action === action && event.id.includes(image?.id ?? "?"),
        );
      await subscription.until(() => seen("delete"));
    } finally {
      await subscription.end();
    }
  });

  test("what happens right after onOpen is not missed", async () => {
    for (let round = 0; round < 10; round += 1) {
      const subscription = await subscribe();
      try {
        await using container = await at.container();
        await subscription.until((events) => events.some(({ id }) => id === container.id));
      } finally {
        await subscription.end();
      }
    }
  });

  test("an abort before the answer ends the events without an error", async () => {
    for await (const event of at.engine.events(testLabel, () => undefined, AbortSignal.abort())) {
      assert.fail(event.action);
    }
  });
});
