import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Call, currentCall, runInCall } from "../../../src/lib/call.js";
import { ShimError } from "../../../src/lib/errors.js";
import { createLogger, silentLogger } from "../../../src/lib/log.js";
import { dockerEngine } from "../../../src/shim/engine/docker-engine.js";
import { type EngineObservation, instrument } from "../../../src/shim/engine/instrumented-engine.js";
import type { Engine, EngineEvent } from "../../../src/shim/ports/engine.js";

/** Only `ping` and `events` do something. */
function engineWith(overrides: Partial<Engine>): Engine {
  return Object.assign(Object.create(null) as Engine, overrides);
}

describe("instrument()", () => {
  const never = new AbortController().signal;
  const limits = { timeoutMs: 1000 };

  function observe(engine: Engine): { readonly engine: Engine; readonly seen: EngineObservation[] } {
    const seen: EngineObservation[] = [];
    let time = 0;
    const options = {
      log: silentLogger(),
      observe: (one: EngineObservation) => seen.push(one),
      now: () => (time += 5),
    };
    return { engine: instrument(engine, options), seen };
  }

  test("wraps every verb of the engine", () => {
    using docker = dockerEngine({ endpoint: { kind: "unix", path: "/x" }, shortTimeoutMs: 1 });
    const { engine } = observe(docker);
    assert.deepEqual(Object.keys(engine), Object.keys(docker));
    const wrapped = new Map(Object.entries(engine));
    for (const [verb, call] of Object.entries(docker)) assert.notEqual(wrapped.get(verb), call, verb);
  });

  for (const level of ["debug", "info"] as const) {
    test(`at level ${level} the log of the call ${level === "debug" ? "has" : "is not asked for"} a line`, async () => {
      const { engine } = observe(engineWith({ ping: () => Promise.resolve() }));
      const lines: string[] = [];
      const log = createLogger(level, { write: (line: string) => void lines.push(line) });
      let current: Call | undefined;
      await runInCall({ rpc: "Status", signal: never, log: log.child({ rpc: "Status" }) }, async () => {
        await Promise.resolve();
        current = currentCall();
        await engine.ping(limits, never);
      });
      assert.equal(current?.rpc, level === "debug" ? "Status" : undefined);
      const wanted = level === "debug" ? [{ rpc: "Status", verb: "ping" }] : [];
      assert.deepEqual(
        lines
          .map((line) => JSON.parse(line) as Record<string, unknown>)
          .map(({ rpc, verb }) => ({ rpc, verb })),
        wanted,
      );
    });
  }

  test("reports the kind of a failure and passes the failure on", async () => {
    const failure = new ShimError("denied", "no");
    const { engine, seen } = observe(engineWith({ ping: () => Promise.reject(failure) }));
    await assert.rejects(engine.ping(limits, never), failure);
    assert.equal(seen[0]?.kind, "denied");
  });

  test("reports an event stream once, when it ends", async () => {
    const event: EngineEvent = { type: "image", action: "pull", id: "x" };
    async function* events(): AsyncGenerator<EngineEvent> {
      await Promise.resolve();
      yield event;
      yield event;
    }
    const { engine, seen } = observe(engineWith({ events }));
    for await (const one of engine.events("label", () => undefined, never)) {
      assert.equal(one, event);
      assert.deepEqual(seen, []);
      break;
    }
    assert.deepEqual(seen, [{ verb: "events", ms: 5 }]);
  });
});
