import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { LegacyShaping, parseFilters } from "../../../../src/network/kubenet/legacy-shaping.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { fakeCommands, never, type Answer } from "../iptables/fake-commands.js";

const golden = JSON.parse(
  readFileSync(new URL("../../../golden/network/kubenet.json", import.meta.url), "utf8"),
) as { readonly tcAfterSetup: string };

/** What tc shows of pod 10.180.0.2 with limits both ways, recorded from dockershim. */
const twoFilters = golden.tcAfterSetup.split("--- [tc filter show dev cbr0] (<nil>)\n")[1] ?? "";
/** The eleventh filter: handles are hexadecimal. */
const eleventh = twoFilters
  .replaceAll("800::801", "800::80a")
  .replaceAll("0ab40002/ffffffff at 12", "0ab40003/ffffffff at 12");

function shaping(show: () => Answer) {
  const run = fakeCommands(({ words }) => (words[1] === "show" ? show() : undefined));
  const log = recordingLog();
  return { run, log, shaping: new LegacyShaping(log, run) };
}

describe("parseFilters() leaves filters of others", () => {
  for (const [what, change] of [
    ["below another parent", (text: string) => text.replaceAll("parent 1:", "parent ffff:")],
    ["that match the source", (text: string) => text.replaceAll(/at 1[26]/g, "at 20")],
    ["with another priority", (text: string) => text.replaceAll(" pref 1 ", " pref 10 ")],
    [
      "that match a port as well",
      (text: string) => text.replaceAll(/^( +)match .*$/gm, "$&\n$1match 00500000/ffff0000 at 20"),
    ],
  ] as const) {
    test(what, () => {
      assert.notEqual(change(twoFilters), twoFilters);
      assert.deepEqual(parseFilters(change(twoFilters)), []);
    });
  }
});

describe("LegacyShaping", () => {
  test("removes the filters of the address and their classes, as dockershim does", async () => {
    const { shaping: limits, run } = shaping(() => ({ stdout: twoFilters }));
    await limits.release(["10.180.0.2", "fd00::2"], never);
    assert.deepEqual(run.lines(), [
      "tc filter show dev cbr0",
      "tc filter del dev cbr0 parent 1: proto ip prio 1 handle 800::800 u32",
      "tc class del dev cbr0 parent 1: classid 1:1",
      "tc filter del dev cbr0 parent 1: proto ip prio 1 handle 800::801 u32",
      "tc class del dev cbr0 parent 1: classid 1:2",
    ]);
    assert.equal(limits.present, false);
  });

  test("removes the eleventh filter, whose handle has a letter, and leaves those of other pods", async () => {
    const { shaping: limits, run } = shaping(() => ({ stdout: eleventh }));
    await limits.release(["10.180.0.3"], never);
    assert.deepEqual(run.lines().slice(1), [
      "tc filter del dev cbr0 parent 1: proto ip prio 1 handle 800::80a u32",
      "tc class del dev cbr0 parent 1: classid 1:2",
    ]);
    assert.equal(limits.present, true);
  });

  for (const [name, answer] of [
    ["filters", { stdout: "" }],
    ["bridge", { exitCode: 1, stderr: 'Cannot find device "cbr0"' }],
    ["program tc", "notFound"],
  ] as const) {
    test(`looks once on a node without ${name}`, async () => {
      const { shaping: limits, run, log } = shaping(() => answer);
      await limits.release(["10.180.0.2"], never);
      await limits.release(["10.180.0.3"], never);
      assert.equal(run.ran.length, 1);
      assert.deepEqual(log.lines, []);
    });
  }

  test("logs a failure and tries again with the next pod", async () => {
    const run = fakeCommands(({ words }) =>
      words[1] === "show" ? { stdout: twoFilters } : { exitCode: 2, stderr: "busy" },
    );
    const log = recordingLog();
    const limits = new LegacyShaping(log, run);
    await limits.release(["10.180.0.2"], never);
    assert.equal(limits.present, true);
    assert.equal(log.lines[0]?.level, "warn");
  });
});
