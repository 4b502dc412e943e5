import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { renderPage } from "../../../src/migrate/judge/render-page.js";
import { idOf } from "../../fakes/snapshots.js";
import { check, engineWith, golden, idsOf, pod } from "./check-bed.js";
import { kubeadm134, kubenet123, noop123, ours } from "./nodes.js";

function textOf({ findings }: Awaited<ReturnType<typeof check>>, id: string): string {
  return findings.find((finding) => finding.id === id)?.text ?? "";
}

describe("migrate check of nodes with other networks", () => {
  test("pods of kubenet are adopted, and are blocked from a runtime without it", async (t) => {
    const tree = {
      ...kubenet123,
      [`/var/lib/cni/cache/results/kubenet-${idOf("a1")}-eth0`]: "{}",
      [`/var/lib/dockershim/sandbox/${idOf("a1")}`]: golden.dockershim,
    };
    const engine = engineWith(pod({ name: "web", id: "a1" }));
    const report = await check(t, { tree, engine, version: "1.23.17" });
    assert.deepEqual(
      report.pods.map(({ maker, network, verdict }) => [maker, network, verdict]),
      [["dockershim", "kubenet", "adopted as it is"]],
    );
    assert.equal(report.summary.exitCode, 0, JSON.stringify(report.findings));
    assert.match(textOf(report, "network-plugin"), /pods have: kubenet; no network in/);
    const away = await check(t, { tree, engine, version: "1.23.17", target: "containerd" });
    assert.ok(idsOf(away, "blocked").includes("kubenet-gone"));
    assert.ok(!idsOf(away).includes("cni-config-missing"));
  });

  test("host ports that this program opened with kubenet stay on the way back", async (t) => {
    const tree = {
      ...kubenet123,
      [`/var/lib/dockershim/sandbox/${idOf("a1")}`]: golden.dockershim,
      [`/var/lib/dockershim/pods/${idOf("a1")}.json`]: '{"network":{"plugin":"kubenet"}}',
    };
    const engine = engineWith(pod({ name: "web", id: "a1", isOurs: true }));
    const rule = { tree, engine, version: "1.23.17", target: "dockershim-in-tree" } as const;
    const ids = idsOf(await check(t, rule), "change");
    assert.ok(ids.includes("way-back-kubenet-ports"));
    assert.ok(!ids.includes("way-back-host-ports"));
  });

  test("pods on Docker's own bridge need neither a cache nor a CNI configuration", async (t) => {
    for (const networkMode of ["default", "bridge"]) {
      const engine = engineWith(pod({ name: "web", id: "a1", sandbox: { networkMode } }));
      const report = await check(t, { tree: noop123, engine, version: "1.23.17" });
      assert.deepEqual(
        report.pods.map(({ network, verdict, findings }) => [network, verdict, findings]),
        [["docker", "adopted as it is", ["pod-without-checkpoint"]]],
      );
      assert.equal(report.summary.exitCode, 0, JSON.stringify(report.findings));
      assert.equal(report.kubelet.runtime, "dockershim-in-tree");
    }
  });

  test("a record with a plugin that is no text is that of an unknown plugin, also on the page", async (t) => {
    for (const plugin of [7, {}, "cni\u001b[2J"]) {
      const record = JSON.stringify({ network: { plugin } });
      const tree = { ...ours, [`/var/lib/dockershim/pods/${idOf("a1")}.json`]: record };
      const report = await check(t, {
        tree,
        engine: engineWith(pod({ name: "web", id: "a1", isOurs: true })),
      });
      const page = renderPage(report);
      assert.match(page, /^ns\/web +this program +\S+ +running +\S/m);
      assert.ok(!page.includes("\u001b"));
    }
  });

  test("an endpoint that config.yaml names by an alias is the endpoint", async (t) => {
    const config = "x: &socket unix:///var/run/cri-dockerd.sock\ncontainerRuntimeEndpoint: *socket\n";
    const tree = { ...kubeadm134, "/var/lib/kubelet/config.yaml": config };
    const { kubelet } = await check(t, { tree, version: "1.34.0" });
    assert.deepEqual(
      [kubelet.runtime, kubelet.endpoint],
      ["cri-dockerd", "unix:///var/run/cri-dockerd.sock"],
    );
  });
});
