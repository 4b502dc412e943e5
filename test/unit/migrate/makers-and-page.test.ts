import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { renderPage } from "../../../src/migrate/judge/render-page.js";
import { wayBack, wayBackTables } from "../../../src/migrate/judge/way-back.js";
import { idOf } from "../../fakes/snapshots.js";
import { check, engineWith, golden, pod, type PodRule } from "./check-bed.js";
import { kubeadm130 } from "./nodes.js";

describe("the maker of a pod", () => {
  const labels = {
    ...pod({ name: "a", id: "a1" })[0]?.labels,
    "dockershim.label-keys": '{"sandbox":"x","keys":["io.kubernetes.docker.type"]}',
  };
  for (const [what, rule, checkpoint, maker] of [
    ["its label", { isOurs: true }, undefined, "this program"],
    ["dockershim's checksum", {}, ["dockershim", golden.dockershim], "dockershim"],
    ["cri-dockerd's checksum", {}, ["dockershim", golden.criDockerd], "cri-dockerd"],
    ["the place of a corrupt checkpoint", {}, ["cri-dockerd", "{"], "cri-dockerd"],
    ["a privileged sandbox", { sandbox: { privileged: true } }, undefined, "cri-dockerd"],
    ["nothing", {}, undefined, "dockershim or cri-dockerd"],
    ["a label that names another sandbox", { sandbox: { labels } }, undefined, "dockershim or cri-dockerd"],
  ] as readonly (readonly [string, Partial<PodRule>, readonly [string, string] | undefined, string])[])
    test(`by ${what}: ${maker}`, async (t) => {
      const [program = "none", text = "{"] = checkpoint ?? [];
      const tree = { ...kubeadm130, [`/var/lib/${program}/sandbox/${idOf("a1")}`]: text };
      const engine = engineWith(pod({ name: "a", id: "a1", ...rule }));
      const { pods } = await check(t, { tree, engine });
      const rows = pods.map((one) => [one.name, one.maker]);
      assert.deepEqual(rows, [["a", maker]]);
      assert.notEqual(pods[0]?.evidence, "");
    });
});

describe("renderPage()", () => {
  test("has at most 100 columns, escapes names of tenants, and has colour only when asked", async (t) => {
    const names = ["a\u001b[31mred", "b".repeat(300), "c\u202etxt"];
    const containers = names.flatMap((name, index) => pod({ name, id: `a${index}` }));
    const report = await check(t, { engine: engineWith(containers) });
    const page = renderPage(report);
    for (const line of page.split("\n")) assert.ok(line.length <= 100, line);
    for (const character of ["\u001b", "\u202e"]) assert.ok(!page.includes(character));
    assert.match(page, /\\u001b\[31mred/);
    assert.ok(renderPage(report, { colour: true }).includes("\u001b[1m"));
  });

  test("says the same of several pods once", async (t) => {
    const containers = Array.from({ length: 12 }, (_, index) =>
      pod({ name: `p${index}`, id: `b${index + 10}` }),
    ).flat();
    const page = renderPage(await check(t, { engine: engineWith(containers), target: "containerd" }));
    assert.equal(page.match(/\[pod-made-again\]/g)?.length, 1);
    assert.match(page, /and 4 more/);
  });
});

test("each row of the way back has an id of its own and a reason", () => {
  assert.equal(new Set(wayBack.map(({ id }) => id)).size, wayBack.length);
  for (const { reason, text } of wayBack) assert.ok(reason !== "" && text !== "");
});

test("docs/migrate/migrating.md has the tables of the way back", async () => {
  const text = await readFile(new URL("../../../docs/migrate/migrating.md", import.meta.url), "utf8");
  const [, tables] = text.split(/<!-- way-back -->\n/);
  assert.equal(tables?.trim(), wayBackTables().trim());
});
