import assert from "node:assert/strict";
import { test } from "node:test";
import type { PodEvent } from "../../../../src/play/kubelet/events.js";
import type { Screen } from "../../../../src/play/view/colours.js";
import { LiveTable } from "../../../../src/play/view/live-table.js";
import type { ShownPod } from "../../../../src/play/view/pod-object.js";
import { ManualClock } from "../manual-clock.js";
import { shownPod } from "./shown-pod.js";

const spec = "  containers: [{name: a, image: x}, {name: b, image: x}]";

class FakeScreen implements Screen {
  text = "";
  constructor(
    readonly isTTY: boolean,
    public columns = 80,
    readonly rows = 24,
  ) {}

  write(text: string): void {
    this.text += text;
  }

  /** What was written since the last call, with ESC as `^`. */
  take(): string {
    const text = this.text.replaceAll("\u001B", "^");
    this.text = "";
    return text;
  }
}

interface Rule {
  readonly screen?: FakeScreen;
  readonly output?: FakeScreen;
  readonly environment?: Record<string, string>;
  readonly pods?: readonly ShownPod[];
}

async function makeTable(rule: Rule = {}) {
  const pods = rule.pods ?? [await shownPod(spec, "a=running b=running")];
  const { screen = new FakeScreen(true), output = screen, environment = {} } = rule;
  const clock = new ManualClock();
  const table = new LiveTable({ pods: () => pods, screen, output, environment, clock });
  const [first] = pods;
  assert.ok(first);
  const event = (message: string, type: PodEvent["type"] = "Normal", container = "a"): void =>
    table.onEvent({ key: first.manifest.key, at: clock.now(), type, reason: "R", message, container });
  return { table, screen, output, clock, pods, first, event };
}

test("on a terminal the table is drawn again in place, events together", async () => {
  const { screen, clock, event, table } = await makeTable({ environment: { NO_COLOR: "1" } });
  event("one");
  event("two");
  assert.equal(screen.take(), "");
  await clock.advance(50);
  const first = screen.take();
  assert.match(first, /^POD +STATUS +READY .*\ndefault\/web +Running +2\/2 .*\n$/);
  event("three");
  await clock.advance(50);
  assert.ok(screen.take().startsWith("^[2A\r^[JPOD "));
  table[Symbol.dispose]();
  screen.take();
  event("four");
  await clock.advance(5000);
  assert.equal(screen.take(), "");
});

test("the status is coloured, and NO_COLOR and a dumb terminal are honoured", async () => {
  const { screen, clock, event } = await makeTable();
  event("one");
  await clock.advance(50);
  assert.match(screen.take(), /default\/web {2}\^\[32mRunning\^\[0m {2}2\/2/);
  const pods = [await shownPod(spec, "a=running b=1", { waiting: { b: { reason: "CrashLoopBackOff" } } })];
  const failing = await makeTable({ pods });
  failing.event("one");
  await failing.clock.advance(50);
  assert.match(failing.screen.take(), /\^\[31mCrashLoopBackOff\^\[0m/);
  const dumb = await makeTable({ environment: { TERM: "dumb" } });
  dumb.event("one", "Warning");
  await dumb.clock.advance(50);
  assert.equal(dumb.screen.take(), "default/web: one\n");
});

test("lines are cut to the width of the terminal, and a narrower one is erased wholly", async () => {
  const screen = new FakeScreen(true, 40);
  const { clock, event } = await makeTable({ screen, environment: { NO_COLOR: "1" } });
  event("one");
  await clock.advance(50);
  for (const line of screen.take().trimEnd().split("\n")) assert.ok(line.length < 40, line);
  screen.columns = 20;
  event("two");
  await clock.advance(50);
  assert.ok(screen.take().startsWith("^[4A\r^[J"));
});

test("of more pods than lines, those that are not ready are shown, and the others counted", async () => {
  const fine = await shownPod(spec, "a=running b=running");
  const failing = await shownPod(spec, "a=running");
  const screen = new FakeScreen(true, 80, 8);
  const pods = [fine, fine, fine, fine, fine, fine, failing, fine];
  const { clock, event } = await makeTable({ screen, pods, environment: { NO_COLOR: "1" } });
  event("one");
  await clock.advance(50);
  const lines = screen.take().trimEnd().split("\n");
  assert.ok(lines.length < 8);
  assert.match(lines[1] ?? "", /ContainerCreating/);
  assert.equal(lines.at(-1), "… and 4 more pods, 0 of them not ready");
});

test("logs go to an output that is no terminal, without colours", async () => {
  const output = new FakeScreen(false);
  const { screen, clock, table, first } = await makeTable({ output });
  table.log({ key: first.manifest.key, container: "a", text: "x\u001B[31mred" });
  await clock.advance(50);
  assert.equal(output.take(), "a: xred\n");
  assert.match(screen.take(), /^POD/);
});

test("warnings and logs are printed above the table; logs in the container's colour and without commands", async () => {
  const { screen, clock, event, table, first } = await makeTable();
  event("it broke\u001B[2J", "Warning");
  event("it broke\u001B[2J", "Warning");
  const { key } = first.manifest;
  table.log({ key, container: "a", text: "x\u001B[31mred\u001B[2J\ty" });
  table.log({ key, container: "b", text: "z" });
  await clock.advance(50);
  const lines = screen.take().split("\n");
  assert.equal(lines[0], "^[33mdefault/web: it broke\\u{1b}[2J^[0m");
  assert.equal(lines[1], "^[36ma:^[0m x^[31mred\\u{1b}[2J\ty^[0m");
  assert.equal(lines[2], "^[33mb:^[0m z");
  assert.match(lines[3] ?? "", /^POD/);
});

test("without a terminal, events and changes of statuses are plain lines, and repeated ones are not", async () => {
  const { screen, table, event, first } = await makeTable({ screen: new FakeScreen(false) });
  event("Started container a");
  event("Readiness probe failed", "Warning");
  event("Readiness probe failed", "Warning");
  const see = async (there: string): Promise<void> => {
    const { status } = await shownPod(`${spec}\n  restartPolicy: Never`, there);
    assert.ok(status);
    table.onStatus(first.manifest, status);
  };
  for (const there of ["a=running", "a=running b=running", "a=running b=3", "a=0 b=3"]) await see(there);
  table.report("bye");
  assert.deepEqual(screen.take().trimEnd().split("\n"), [
    "default/web: Started container a",
    "default/web: Readiness probe failed",
    "default/web: is ready",
    "default/web: container b ended with exit code 3",
    "default/web: is no longer ready: containers with unready status: [b]",
    "default/web: container a ended with exit code 0",
    "default/web: has failed",
    "bye",
  ]);
});
