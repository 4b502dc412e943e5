/** What docs/migrate/migrating.md says of the other programs, against what was recorded from them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { containerName, alternativeName, sandboxName } from "../../../src/domain/names.js";
import { oneMapping } from "../checkpoints/golden.js";
import { check, engineWith, golden, idsOf, pod } from "./check-bed.js";
import { kubeadm123, ours } from "./nodes.js";
import { idOf } from "../../fakes/snapshots.js";

describe("checkpoints on the way back", () =>
  test("a pod with host ports gets the command that converts its checkpoint for the target", async (t) => {
    for (const [target, tree, directory, text, version] of [
      ["cri-dockerd", ours, "dockershim", golden.dockershim, "1.30.1"],
      ["dockershim-in-tree", kubeadm123, "cri-dockerd", oneMapping.criDockerd.file, "1.23.17"],
    ] as const) {
      const report = await check(t, {
        tree: { ...tree, [`/var/lib/${directory}/sandbox/${idOf("a1")}`]: text },
        engine: engineWith(pod({ name: "a", id: "a1" })),
        ...{ target, version },
      });
      const next = report.findings.find(({ id }) => id === "way-back-host-ports")?.next ?? "";
      const to = target === "cri-dockerd" ? "cri-dockerd" : "dockershim";
      const found = next.endsWith(
        `: dockershim checkpoint convert --to ${to} --directory /var/lib/${directory}/sandbox --output-directory /var/lib/${to}/sandbox`,
      );
      assert.ok(found, next);
    }
  }));

test("host ports of Docker's network and of the host's need not be released by the target", async (t) => {
  for (const networkMode of ["default", "host"]) {
    const report = await check(t, {
      tree: { ...ours, [`/var/lib/dockershim/sandbox/${idOf("a1")}`]: golden.dockershim },
      engine: engineWith(pod({ name: "a", id: "a1", sandbox: { networkMode } })),
      ...{ target: "cri-dockerd", version: "1.30.1" },
    });
    const rows = report.pods.map(({ findings, level }) => [findings, level]);
    assert.deepEqual(rows, [[["way-back-checkpoint"], "note"]]);
  }
});

describe("names on the way back", () => {
  const bodies = JSON.parse(
    readFileSync(new URL("../../golden/create-bodies.json", import.meta.url), "utf8"),
  ) as Readonly<Record<"dockershim" | "cri-dockerd", Readonly<Record<string, { readonly name: string }>>>>;
  const web = { name: "web-0", namespace: "default", uid: "uid-1", attempt: 2 };

  test("the three programs give the same names", () => {
    for (const program of ["dockershim", "cri-dockerd"] as const) {
      assert.equal(bodies[program]["sandbox: full"]?.name, sandboxName(web));
      const own = containerName(web, { name: "c1", attempt: 1 });
      assert.equal(bodies[program]["container: full"]?.name, own);
    }
  });

  test("an escaped name has the seven fields that they read, with a random number the eight that they refuse", async (t) => {
    const escaped = sandboxName({ ...web, name: "web_0" });
    assert.equal(escaped.split("_").length, 7);
    const random = alternativeName(escaped, 0xbeef);
    assert.equal(random.split("_").length, 8);
    const findings = async (dockerName: string): Promise<readonly string[]> => {
      const engine = engineWith(pod({ name: "web_0", id: "a1", isOurs: true, dockerName }), {
        facts: { engineApiVersion: "1.51" },
      });
      return idsOf(await check(t, { tree: ours, engine, target: "cri-dockerd" }));
    };
    assert.ok((await findings(escaped)).includes("way-back-escaped-name"));
    assert.ok((await findings(random)).includes("way-back-escaped-random"));
    assert.ok(!(await findings(sandboxName(web))).some((id) => id.startsWith("way-back-escaped")));
  });
});
