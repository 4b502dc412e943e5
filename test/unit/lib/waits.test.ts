import assert from "node:assert/strict";
import { describe, mock, test } from "node:test";
import { orAbort, withDeadline } from "../../../src/lib/abort.js";
import { KeyedMutex } from "../../../src/lib/sync/keyed-mutex.js";
import { SingleFlight } from "../../../src/lib/sync/single-flight.js";
import { ShimError } from "../../../src/lib/errors.js";
import { describeWaits, formatAge, noteWait, traceBelow, type Span } from "../../../src/lib/waits.js";

const never = (signal: AbortSignal): Promise<never> => orAbort(new Promise<never>(() => undefined), signal);
/** What is said, without ages. */
const waitsOf = (signal: AbortSignal): readonly string[] =>
  describeWaits(signal).map((text) => text.replaceAll(/ \(\d+ m?s\)/g, ""));

describe("what a call waits for", () => {
  test("is the innermost of its waits, while they last", async () => {
    const call = new AbortController();
    const end = new AbortController();
    const work = withDeadline(call.signal, 60_000, "run the pod", (outer) =>
      withDeadline(outer, 60_000, "start it", () => never(end.signal), { detail: () => "POST /start" }),
    );
    assert.deepEqual(waitsOf(call.signal), ["start it, POST /start"]);
    end.abort(new Error("over"));
    await assert.rejects(work, /over/);
    assert.deepEqual(waitsOf(call.signal), []);
  });

  test("is a lock, with what its holder waits for", async () => {
    const locks = new KeyedMutex();
    const [holder, waiter] = [new AbortController(), new AbortController()];
    const held = locks.run("web", holder.signal, () =>
      withDeadline(holder.signal, 60_000, "start container", never),
    );
    const waiting = locks.run("web", waiter.signal, () => Promise.resolve());
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(waitsOf(waiter.signal), ['the lock of "web", whose holder waits for: start container']);
    holder.abort(new Error("left"));
    await assert.rejects(held);
    await waiting;
  });

  test("is named also when two holders wait for each other", async () => {
    const locks = new KeyedMutex();
    const calls = [new AbortController(), new AbortController()] as const;
    const crossed = ["a", "b"].map((key, index) => {
      const { signal } = calls[index === 0 ? 0 : 1];
      return locks.run(key, signal, async () => {
        await Promise.resolve();
        await locks.run(key === "a" ? "b" : "a", signal, () => Promise.resolve());
      });
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.match(
      waitsOf(calls[0].signal).join(),
      /^the lock of "b", whose holder waits for: the lock of "a", /,
    );
    for (const call of calls) call.abort(new Error("over"));
    await Promise.allSettled(crossed);
  });

  test("is the work that calls share", async () => {
    const flights = new SingleFlight<undefined>();
    const [first, second] = [new AbortController(), new AbortController()];
    const work = (signal: AbortSignal): Promise<undefined> => withDeadline(signal, 60_000, "pull app", never);
    const all = [first, second].map(({ signal }) => flights.run("app", signal, work));
    assert.deepEqual([waitsOf(first.signal), waitsOf(second.signal)], [["pull app"], ["pull app"]]);
    for (const call of [first, second]) call.abort(new Error("over"));
    await Promise.allSettled(all);
  });

  test("is looked for no further than it is said", () => {
    const signals = Array.from({ length: 7 }, () => new AbortController().signal);
    let asked = 0;
    const what = (): string => `wait ${asked++}`;
    for (const [index, signal] of signals.entries())
      for (let count = 0; count < 6; count++) noteWait(signal, { action: what, inner: signals[index + 1] });
    const [first = AbortSignal.abort()] = signals;
    assert.deepEqual(waitsOf(first), ["wait 0", "wait 1", "wait 2"]);
    assert.ok(asked <= 3 ** signals.length, String(asked));
  });

  test("is not the key of work that calls share, which may be made of credentials", async () => {
    const call = new AbortController();
    const shared = new SingleFlight<undefined>().run("app with the password", call.signal, never);
    assert.deepEqual(waitsOf(call.signal), ["work that calls share"]);
    call.abort(new Error("over"));
    await assert.rejects(shared, /over/);
  });

  test("is said by a deadline that passes", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const work = withDeadline(undefined, 5000, "tear down", async (signal) => {
        using _noted = noteWait(signal, { action: 'CNI plugin "bridge" DEL' });
        await never(signal);
      });
      const failed = assert.rejects(work, {
        kind: "timeout",
        message: /^tear down: not finished after 5s; it waited for: CNI plugin "bridge" DEL \(\d+ ms\)$/,
      });
      mock.timers.tick(5000);
      await failed;
    } finally {
      mock.timers.reset();
    }
  });
});

/** Texts and errors of spans, without times. */
type Outline = readonly (readonly [what: string, kind: string, error: string | undefined, below: Outline])[];
const outline = (spans: readonly Span[]): Outline =>
  spans.map(({ what, kind, error, children }) => [what, kind, error, outline(children)]);

describe("a trace", () => {
  test("keeps ended waits below its signal, through the signals of inner work, with their errors", async () => {
    const call = new AbortController();
    const before = noteWait(call.signal, { action: "an earlier wait" });
    before[Symbol.dispose]();
    const trace = traceBelow(call.signal);
    const failed = withDeadline(call.signal, 60_000, "start it", (own) =>
      withDeadline(
        own,
        60_000,
        'start container "x"',
        () => Promise.reject(new ShimError("unknown", "no such image")),
        { kind: "engine", detail: () => "POST /start" },
      ),
    );
    await assert.rejects(failed);
    await withDeadline(call.signal, 60_000, "next", () => Promise.resolve());
    const { spans, dropped } = trace.end();
    assert.deepEqual(outline(spans), [
      [
        ...(["start it", "wait", "no such image"] as const),
        [['start container "x"', "engine", "no such image", []]],
      ],
      ["next", "wait", undefined, []],
    ]);
    const [first] = spans;
    const [inner] = first?.children ?? [];
    assert.ok(first && inner && first.startMs <= inner.startMs && inner.endMs <= first.endMs);
    assert.equal(dropped, 0);
  });

  test("ends waits that last, and keeps none that come later", async () => {
    const call = new AbortController();
    const trace = traceBelow(call.signal);
    const lasting = noteWait(call.signal, { action: "the lock", kind: "lock" });
    const [span] = trace.end().spans;
    assert.deepEqual([span?.what, span?.kind], ["the lock", "lock"]);
    assert.ok(span && span.endMs >= span.startMs);
    lasting[Symbol.dispose]();
    noteWait(call.signal, { action: "later" })[Symbol.dispose]();
    assert.equal(trace.end().spans.length, 1);
  });

  test("has the work that calls share, also of a call that came later", async () => {
    const flights = new SingleFlight<undefined>();
    const [untraced, late] = [new AbortController(), new AbortController()];
    const end = new AbortController();
    const work = async (signal: AbortSignal): Promise<undefined> => {
      await withDeadline(signal, 60_000, "pull app", () => never(end.signal)).catch(() => undefined);
      return withDeadline(signal, 60_000, "look at it", () => Promise.resolve(undefined));
    };
    const first = flights.run("app", untraced.signal, work);
    const trace = traceBelow(late.signal);
    const second = flights.run("app", late.signal, work);
    end.abort(new Error("reset"));
    await Promise.all([first, second]);
    assert.deepEqual(outline(trace.end().spans), [
      [
        ...(["work that calls share", "wait", undefined] as const),
        [
          ["pull app", "wait", "reset", []],
          ["look at it", "wait", undefined, []],
        ],
      ],
    ]);
  });

  test("has of work that calls share what was done while its own call waited for it", () => {
    let nowMs = 0;
    const clock = mock.method(performance, "now", () => nowMs);
    try {
      const controllers = Array.from({ length: 4 }, () => new AbortController());
      const [first, second, shared, pulling] = controllers.map(({ signal }) => signal);
      assert.ok(first && second && shared && pulling);
      const firstTrace = traceBelow(first);
      const its = noteWait(first, { action: "share", inner: shared });
      const pull = noteWait(shared, { action: "pull", inner: pulling });
      const begin = noteWait(pulling, { action: "begin" });
      nowMs = 50;
      begin[Symbol.dispose]();
      const rest = noteWait(pulling, { action: "rest" });
      nowMs = 60;
      const secondTrace = traceBelow(second);
      const late = noteWait(second, { action: "share", inner: shared });
      nowMs = 65;
      late[Symbol.dispose]();
      nowMs = 70;
      for (const noted of [rest, pull, its]) noted[Symbol.dispose]();
      type Times = readonly (readonly [what: string, startMs: number, endMs: number, below: Times])[];
      const times = (spans: readonly Span[]): Times =>
        spans.map(({ what, startMs, endMs, children }) => [what, startMs, endMs, times(children)]);
      assert.deepEqual(times(secondTrace.end().spans), [
        ["share", 60, 65, [["pull", 60, 65, [["rest", 60, 65, []]]]]],
      ]);
      const parts: Times = [
        ["begin", 0, 50, []],
        ["rest", 50, 70, []],
      ];
      assert.deepEqual(times(firstTrace.end().spans), [["share", 0, 70, [["pull", 0, 70, parts]]]]);
    } finally {
      clock.mock.restore();
    }
  });

  test("has errors without secrets, also where they are cut, and no words of them where none may be", () => {
    const { signal } = new AbortController();
    const trace = traceBelow(signal);
    const noted = noteWait(signal, { action: "pull" });
    noted.fail(new Error(`${"x".repeat(470)} https://user:${"s3cret".repeat(9)}@registry/`));
    noted[Symbol.dispose]();
    const errorsOf = (options: { readonly withoutErrors?: boolean }): readonly (string | undefined)[] =>
      trace.end(options).spans.map(({ error }) => error);
    const [error = "s3cret"] = errorsOf({});
    assert.ok(error.length <= 500 && !error.includes("s3cret"), error);
    assert.deepEqual(errorsOf({ withoutErrors: true }), ["failed"]);
  });

  test("counts the waits beyond its limit, and asks only kept ones for their text", () => {
    const { signal } = new AbortController();
    const trace = traceBelow(signal, { spans: 2 });
    let asked = 0;
    for (let count = 0; count < 5; count++)
      noteWait(signal, { action: () => `wait ${asked++}` })[Symbol.dispose]();
    assert.equal(asked, 0);
    const { spans, dropped } = trace.end();
    assert.deepEqual([spans.length, dropped, asked], [2, 3, 2]);
  });

  test("ends also when calls wait for each other's work", () => {
    const [one, other] = [new AbortController().signal, new AbortController().signal];
    const trace = traceBelow(one);
    noteWait(one, { action: "other", inner: other });
    noteWait(other, { action: "one", inner: one });
    const { spans } = trace.end();
    assert.equal(spans[0]?.what, "other");
  });
});

test("formatAge() has milliseconds below one second, then whole seconds", () => {
  assert.deepEqual([0.4, 999, 1000, 31_900].map(formatAge), ["0 ms", "999 ms", "1 s", "31 s"]);
});
