/** What a kubelet asks about the pods of a MigrationNode, with and without a shadow before its server. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ShadowReport } from "../../src/compare/shadow/shadow-report.js";
import { connectCri, type CriClient } from "./cri-client.js";
import type { MigrationNode } from "./migration-node.js";
import { CommandProcess } from "./shim-process.js";
import { until } from "./wait.js";

/** The report of a shadow behind which a client asks about every pod. */
export async function shadowed(
  node: MigrationNode,
  primary: string,
  second: string,
  directory: string,
): Promise<ShadowReport> {
  const [listen, file] = [join(directory, "listen.sock"), join(directory, "report")];
  const argv = ["shadow", `--primary=${primary}`, `--listen=${listen}`, `--endpoint=${second}`];
  const shadow = CommandProcess.start([...argv, `--report=${file}`]);
  const read = async (): Promise<Partial<ShadowReport>> =>
    JSON.parse(await readFile(file, "utf8").catch(() => "{}")) as Partial<ShadowReport>;
  try {
    await shadow.untilPrinted(/clients dial/);
    await until("both servers have answered", async () => ((await read()).shadow?.server ?? "") !== "");
    using cri = connectCri(listen, node.kind === "dockershim" ? "v1alpha2" : "v1");
    await askAbout(cri, node);
    // Only what differs once more after a second is a difference.
    await sleep(1500);
  } finally {
    const { code, stderr } = await shadow.end("SIGTERM");
    assert.equal(code, 0, stderr);
  }
  return (await read()) as ShadowReport;
}

async function askAbout(cri: CriClient, { pods }: MigrationNode): Promise<void> {
  await Promise.all([cri.Version(), cri.ListPodSandbox(), cri.ListContainers()]);
  for (const { id, containers } of pods) {
    await cri.PodSandboxStatus({ pod_sandbox_id: id });
    for (const container_id of containers) await cri.ContainerStatus({ container_id });
  }
}
