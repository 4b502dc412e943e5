import assert from "node:assert/strict";
import { test } from "node:test";
import type { NetworkList } from "../../../../src/network/libcni/configuration.js";
import type { NetworkListRunner } from "../../../../src/network/libcni/network-list-runner.js";
import { StatusProbe } from "../../../../src/network/cni/status-probe.js";

const listOf = (text: string): NetworkList => ({ text, cniVersion: "1.1.0" }) as unknown as NetworkList;
const [former, latter] = [listOf("former"), listOf("latter")];

/** Questions wait for their answer: undefined for no problem. */
function probe(): {
  readonly status: StatusProbe;
  readonly asked: readonly string[];
  readonly answer: (text: string, problem?: string) => void;
} {
  const asked: string[] = [];
  const open = new Map<string, (problem?: string) => void>();
  const runner = {
    status: (list: NetworkList) =>
      new Promise<void>((resolve, reject) => {
        asked.push(list.text);
        open.set(list.text, (problem) => {
          if (problem === undefined) resolve();
          else reject(new Error(problem));
        });
      }),
  } as unknown as NetworkListRunner;
  return { status: new StatusProbe(runner), asked, answer: (text, problem) => open.get(text)?.(problem) };
}

test("ask() about a new configuration does not take the answer about the former one", async () => {
  const { status, asked, answer } = probe();
  const first = status.ask(former);
  const second = status.ask(latter);
  assert.deepEqual(asked, ["former", "latter"]);
  answer("latter", "not ready");
  await second;
  assert.equal(status.problemOf(latter), "not ready");
  answer("former");
  await first;
  assert.equal(status.problemOf(latter), "not ready", "the late answer about the former one counts no more");
  status.stop();
});
