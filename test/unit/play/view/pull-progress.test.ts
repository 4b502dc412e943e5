import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { CriClient } from "../../../../src/play/cri/client.js";
import { LiveTable } from "../../../../src/play/view/live-table.js";
import { PullProgress } from "../../../../src/play/view/pull-progress.js";
import { ManualClock } from "../manual-clock.js";
import { shownPod } from "./shown-pod.js";

const { signal } = new AbortController();
const silent = { status: null, runtime_handlers: [], features: null };
const mebibyte = 1024 ** 2;

const downloading = [
  { id: "a", status: "Pull complete", current: 10 * mebibyte, total: 10 * mebibyte },
  { id: "b", status: "Downloading", current: 2.5 * mebibyte, total: 30 * mebibyte },
  { id: "c", status: "Already exists", current: 0, total: 0 },
];

/** A table of one pod, whose server pulls until it is told to end. */
async function makeTable({ isTTY = true } = {}) {
  const pod = await shownPod("  containers: [{name: a, image: x}]", "");
  const clock = new ManualClock();
  const server = {
    asked: 0,
    answer: (): Readonly<Record<string, string>> => ({ pulls: "[]" }),
    end: (): void => undefined,
    tells: (image: string, layers: unknown): void => {
      server.answer = () => ({ pulls: JSON.stringify([{ image, layers }]) });
    },
  };
  const pulls = new PullProgress(
    {
      status: async () => {
        server.asked += 1;
        await Promise.resolve();
        return { ...silent, info: server.answer() };
      },
    },
    clock,
  );
  const client = pulls.followed<Pick<CriClient, "pullImage">>({
    pullImage: () => new Promise<string>((resolve) => (server.end = () => resolve("id"))),
  });
  const screen = { isTTY, columns: 200, text: "", write: (text: string) => (screen.text = text) };
  const table = new LiveTable({
    ...{ pods: () => [pod], screen, output: screen, environment: { NO_COLOR: "1" }, clock, pulls },
  });
  const { namespace, name, uid } = pod.manifest.key;
  const pull = (image: string): Promise<string> =>
    client.pullImage(image, { metadata: { namespace, name, uid, attempt: 0 } }, signal);
  const lastEvent = (): string => screen.text.trimEnd().split(/ {2,}/).at(-1) ?? "";
  return { table, clock, server, pull, lastEvent };
}

describe("the progress of a pull", () => {
  test("is shown as the pod's last event until the pull ends, whatever form the reference has", async () => {
    const { clock, server, pull, lastEvent, table } = await makeTable();
    await clock.advance(5000);
    assert.equal(server.asked, 0);
    const pulled = pull("busybox:1");
    await clock.advance(700);
    assert.equal(server.asked, 2);
    assert.equal(lastEvent(), "-");
    server.tells("docker.io/library/busybox:1", downloading);
    await clock.advance(400);
    assert.equal(lastEvent(), "Pulling busybox:1: 2/3 layers, 12.5/40.0 MiB");
    server.tells("busybox:1", [{ id: "a", status: "Waiting" }]);
    await clock.advance(400);
    assert.equal(lastEvent(), "Pulling busybox:1: 0/1 layers");
    server.end();
    await pulled;
    const { asked } = server;
    await clock.advance(5000);
    assert.equal(lastEvent(), "-");
    assert.equal(server.asked, asked);
    table[Symbol.dispose]();
  });

  test("is that of its own image, and is escaped", async () => {
    const { clock, server, pull, lastEvent } = await makeTable();
    server.tells("other:1", downloading);
    void pull("a\u001B[2J");
    await clock.advance(1100);
    assert.equal(lastEvent(), "-");
    server.tells("a\u001B[2J", downloading);
    await clock.advance(1100);
    assert.match(lastEvent(), /^Pulling a\\u\{1b\}\[2J: 2\/3 layers/);
  });

  const silent: readonly (readonly [string, () => Readonly<Record<string, string>>])[] = [
    ["does not tell it", () => ({ config: "{}" })],
    ["tells no JSON", () => ({ pulls: "x" })],
    [
      "fails",
      () => {
        throw new Error("planned");
      },
    ],
  ];
  for (const [what, answer] of silent)
    test(`is asked once for each pull from a server that ${what}`, async () => {
      const { clock, server, pull, lastEvent } = await makeTable();
      server.answer = answer;
      void pull("busybox:1");
      await clock.advance(5000);
      assert.equal(server.asked, 1);
      assert.equal(lastEvent(), "-");
      void pull("busybox:2");
      await clock.advance(5000);
      assert.equal(server.asked, 2);
    });

  test("is not asked for without a terminal, and no more after the table", async () => {
    const lines = await makeTable({ isTTY: false });
    void lines.pull("busybox:1");
    await lines.clock.advance(5000);
    assert.equal(lines.server.asked, 0);
    const { clock, server, pull, table } = await makeTable();
    void pull("busybox:1");
    await clock.advance(400);
    table[Symbol.dispose]();
    const { asked } = server;
    assert.equal(asked, 1);
    await clock.advance(5000);
    assert.equal(server.asked, asked);
  });
});
