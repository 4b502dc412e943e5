/** `migrate check` on a MigrationNode. */
import assert from "node:assert/strict";
import type { CheckReport } from "../../src/migrate/judge/check-report.js";
import { type Target, usesDocker } from "../../src/migrate/kubelet/target.js";
import { dockerEndpoint, dockerJson } from "./docker.js";
import { configuredOn, expectedOf, makerNames, refusedByKubelet } from "./expected-of-nodes.js";
import type { MigrationNode } from "./migration-node.js";

/** The least that cri-dockerd 0.4 asks for. */
const criDockerdApiMinor = 42;

/** What `migrate check --to target` must say of the node, of each of its pods, and by its exit code. */
export async function assertChecked(node: MigrationNode, target: Target): Promise<void> {
  const { kind, network, pods } = node;
  const flags = ["--to", target, "--docker-endpoint", dockerEndpoint, "-o", "json"];
  const { code, stdout, stderr } = await node.migrate("check", node.root, ...flags);
  assert.equal(stderr, "");
  const report = JSON.parse(stdout) as CheckReport;
  for (const pod of pods) {
    const found = report.pods.find(({ sandboxId }) => sandboxId === pod.id);
    assert.ok(found, `${pod.name} is not reported`);
    const { maker, network: of, verdict, findings } = found;
    const expected = expectedOf(pod, network, target);
    assert.deepEqual({ maker, network: of, verdict, findings }, expected, `${pod.name} to ${target}`);
  }
  assert.equal(report.pods.length, pods.length);
  const makers = pods.map(({ maker }) => makerNames[maker]);
  const count = (one: string): number => makers.filter((maker) => maker === one).length;
  assert.deepEqual(report.makers, Object.fromEntries(makers.map((one) => [one, count(one)])));
  assert.equal(report.kubelet.runtime, configuredOn[kind]);
  const inNetwork = pods.filter(({ isHost }) => !isHost);
  assert.equal(report.network.cachedPods, network === "no-op" ? 0 : inNetwork.length);

  const levels = new Map(report.findings.map(({ id, level }) => [id, level]));
  const refused = refusedByKubelet[kind].includes(target) ? "blocked" : undefined;
  assert.equal(levels.get("kubelet-version"), refused);
  const isOldEngine = target === "cri-dockerd" && (await apiMinor()) < criDockerdApiMinor;
  assert.equal(levels.get("engine-api"), isOldEngine ? "blocked" : undefined);
  const endsKubenet = network === "kubenet" && !usesDocker(target) ? "blocked" : undefined;
  assert.equal(levels.get("kubenet-gone"), endsKubenet);
  assert.equal(levels.get("image-local"), imageLevel(target));
  const serious = report.findings.filter(({ level }) => level !== "note");
  assert.equal(code, target === "dockershim" ? 0 : 2, JSON.stringify(serious));
}

function imageLevel(target: Target): string {
  if (!usesDocker(target)) return "lost";
  return target === "dockershim" ? "note" : "change";
}

async function apiMinor(): Promise<number> {
  const { ApiVersion } = (await dockerJson("GET", "/version")) as { ApiVersion: string };
  return Number(ApiVersion.split(".")[1]);
}
