import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { newReport } from "../../../../src/compare/observe-calls.js";
import { ReportBuilder, type ShadowReport } from "../../../../src/compare/shadow/shadow-report.js";
import { renderReport, runShowReport } from "../../../../src/compare/cli/show-report.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

function reportOf(intended?: { key: string; reason: string }): ShadowReport {
  const paths = { listen: "/l", relay: "/r", primary: "/p" };
  const report = newReport({ paths, endpoint: "/e", startedAt: "2026-01-31T00:00:00Z" });
  const builder = new ReportBuilder(report);
  builder.counts("Status").observed = 3;
  const difference = {
    rpc: "Status",
    subject: "server",
    field: "a[x].b",
    left: 1,
    right: "\u001b[31m\u202e\u009b",
  };
  const shown = intended === undefined ? difference : { ...difference, intended };
  builder.add(shown, shown, "2026-01-31T00:00:01Z");
  return report;
}

test("the page names counts and differences, at most 100 columns wide, without control characters", () => {
  const page = renderReport(reportOf());
  assert.match(page, /^Status +3 /m);
  assert.match(page, /^Status a\[\]\.b: 1 times/m);
  assert.ok(page.split("\n").every((line) => line.length <= 100));
  assert.ok(!/[\p{Cc}\p{Cf}]/u.test(page.replaceAll("\n", "")));
});

test("a difference that is not intended stays one beside an intended one of the same field", () => {
  const report = reportOf({ key: "k", reason: "because" });
  const builder = new ReportBuilder(report);
  const other = { rpc: "Status", subject: "server", field: "a[y].b", left: 1, right: 2 };
  assert.equal(builder.isKnown(other), false);
  builder.add(other, other, "2026-01-31T00:00:02Z");
  assert.deepEqual(
    report.differences.map(({ intended, count }) => [intended?.key, count]),
    [
      ["k", 1],
      [undefined, 1],
    ],
  );
});

test("the exit code is 2 when a difference is not intended", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "report");
  let out = "";
  for (const [report, code] of [
    [reportOf(), 2],
    [reportOf({ key: "k", reason: "because" }), 0],
  ] as const) {
    await writeFile(path, JSON.stringify(report));
    assert.equal(await runShowReport(path, { writeOut: (text) => (out += text) }), code);
  }
  assert.match(out, /intended: because/);
  await writeFile(path, "{}");
  await assert.rejects(runShowReport(path, { writeOut: () => undefined }), {
    kind: "invalid",
    message: /not a report of "dockershim shadow"/,
  });
});
