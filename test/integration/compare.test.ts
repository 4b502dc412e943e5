/** `dockershim diff` between shims on one engine. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { DiffReport } from "../../src/compare/diff/diff-report.js";
import { makeLegacyPod } from "../support/legacy-pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { runProgram } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

async function diff(
  left: ShimProcess,
  right: ShimProcess,
  ...flags: string[]
): Promise<{ readonly code: number | null; readonly report: DiffReport; readonly fields: string[] }> {
  const argv = ["diff", left.socket, right.endpoint, "--output=json", ...flags];
  const { code, stdout, stderr } = await runProgram(argv);
  assert.equal(stderr, "");
  const report = JSON.parse(stdout) as DiffReport;
  return { code, report, fields: report.differences.map(({ rpc, field }) => `${rpc} ${field}`) };
}

describe("dockershim diff", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  before(async () => {
    const { cri } = bed.shim;
    // Another PID mode is known from the record of the shim that made the pod.
    const linux = (network: number): object => ({
      linux: { security_context: { namespace_options: { pid: 1, network } } },
    });
    const running = await bed.runPod(cri, linux(0));
    await running.start();
    const ended = await running.start({ metadata: { name: "ended" }, command: ["sh", "-c", "exit 3"] });
    await running.untilExited(ended);
    await running.create({ metadata: { name: "created" } });
    const broken = await running.create({ metadata: { name: "broken" }, command: ["/no/such/program"] });
    await assert.rejects(cri.StartContainer({ container_id: broken }));
    const stopped = await bed.runPod(cri, linux(0));
    await stopped.start();
    await stopped.stop();
    await bed.runPod(cri, linux(2));
    await makeLegacyPod(bed);
  });

  test("finds no difference between a server and itself", async () => {
    const { code, report, fields } = await diff(bed.shim, bed.shim);
    assert.deepEqual(fields, []);
    assert.equal(code, 0);
    assert.ok(report.asked.pods >= 4 && report.asked.containers >= 6 && report.asked.images >= 2);
    assert.equal(report.left.kind, "dockershim");
  });

  test("names what another configuration changes, and no more", async () => {
    const flags = ["--network-plugin=cni", `--cni-conf-dir=${await bed.newDirectory()}`];
    await using second = await bed.startShim({ flags });
    const { code, fields } = await diff(bed.shim, second);
    assert.deepEqual(fields, [
      "Status status.conditions[NetworkReady].status",
      "Status status.conditions[NetworkReady].reason",
      "Status status.conditions[NetworkReady].message",
    ]);
    assert.equal(code, 2);
  });
});
