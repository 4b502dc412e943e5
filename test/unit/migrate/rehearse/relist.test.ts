import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { CriConnection } from "../../../../src/client/cri-connection.js";
import { findLeft, removePods } from "../../../../src/migrate/rehearse/remove-pods.js";
import { whileRelisting } from "../../../../src/migrate/rehearse/relist.js";
import type { MadePod } from "../../../../src/migrate/rehearse/scratch-pods.js";
import { idOf } from "../../../fakes/snapshots.js";
import { podConfig } from "../../plan/builders.js";

const signal = new AbortController().signal;
const id = idOf("a");
const metadata = { name: "web", namespace: "default", uid: "u", attempt: 0 };
const pod: MadePod = {
  ...{ id, containers: [] },
  recorded: { id: idOf("1"), answers: {}, containers: [], config: podConfig({ metadata }) },
};

describe("whileRelisting()", () => {
  for (const [what, second, expected] of [
    ["nothing in lists that have the pod", { items: [{ id, state: 0 }] }, []],
    ["one list that misses the pod", { items: [] }, ["pod default/web: a list missed it"]],
    [
      "one list with a pod that is not ready",
      { items: [{ id, state: 1 }] },
      ["pod default/web: a list had it with the state 1"],
    ],
    ["one list that fails", new Error("no link"), ["rehearsal: a list failed: no link"]],
  ] as const) {
    test(`finds ${what}, also when later ones are right`, async () => {
      let lists = 0;
      let third = (): void => undefined;
      const listed = new Promise<void>((resolve) => {
        third = resolve;
      });
      const call = (name: string): Promise<unknown> => {
        if (name === "ListContainers") return Promise.resolve({ containers: [] });
        lists += 1;
        if (lists === 3) third();
        if (lists !== 2) return Promise.resolve({ items: [{ id, state: 0 }] });
        return second instanceof Error ? Promise.reject(second) : Promise.resolve(second);
      };
      const cri = { call } as unknown as CriConnection;
      const { result, relisting } = await whileRelisting([pod], cri, signal, () => listed.then(() => "done"));
      assert.equal(result, "done");
      assert.deepEqual(
        relisting.problems.map(({ subject, text }) => `${subject}: ${text}`),
        expected,
      );
    });
  }
});

test("removePods() goes on after a pod that cannot be removed", async () => {
  const called: string[] = [];
  const call = (name: string, request: { pod_sandbox_id: string }): Promise<unknown> => {
    called.push(`${name} ${request.pod_sandbox_id}`);
    return request.pod_sandbox_id === "a" ? Promise.reject(new Error("busy")) : Promise.resolve({});
  };
  const problems = await removePods({ call } as unknown as CriConnection, ["a", "b"], signal);
  assert.deepEqual(problems, [{ subject: "sandbox a", text: "its removal failed: busy" }]);
  assert.deepEqual(called, ["StopPodSandbox a", "StopPodSandbox b", "RemovePodSandbox b"]);
});

test("findLeft() finds containers, checkpoints and what the network plugin left", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "dockershim-left-"));
  t.after(() => rm(directory, { recursive: true }));
  const engine = (ids: readonly string[]) => ({
    listContainers: () => Promise.resolve(ids.map((one) => ({ id: one }))) as never,
  });
  const networks = { whatIsLeft: () => Promise.resolve(["the link veth1"]) };
  const [path, other] = [join(directory, "abc"), join(directory, "def")];
  const looked = { directory, directories: [directory], kept: [other] };
  await writeFile(other, "");
  assert.deepEqual(await findLeft(engine([]), { ...looked, networks: undefined }, signal), []);
  await writeFile(path, "");
  const found = await findLeft(engine(["c"]), { ...looked, networks }, signal);
  assert.deepEqual(
    found.map(({ text }) => text),
    ["container c was not removed with its pod", `the checkpoint ${path} is left`, "the link veth1 is left"],
  );
});
