import assert from "node:assert/strict";
import { test } from "node:test";
import { rowOf } from "../../../bench/ratios.js";
import { formatServers } from "../../../bench/servers-report.js";

test("formatServers() prints a table for each other server, with - for what is not known", () => {
  const unknown = { server: "other", values: [NaN, NaN] };
  const servers = ["dockershim", "other", "third"].map((name, index) => ({
    ...{ name, socket: `/run/${name}.sock`, pid: null },
    ...{ suspended: index === 0, podAddress: index === 0 ? "" : "10.0.0.2" },
  }));
  const text = formatServers({
    machine: { cores: 2, node: "20.0.0", engine: "28.5.2" },
    ...{ load: [0.1, 0.2], servers, flags: ["--v=4"], pods: 100, starts: 30, bursts: 5, reads: 300 },
    rows: [
      rowOf({ title: "Status", unit: "ms" }, [
        { server: "dockershim", values: [1, 2] },
        { server: "other", values: [2, 4] },
        { server: "third", values: [1, 1] },
      ]),
      rowOf({ title: "Status, CPU of the server", unit: "ms", center: "mean" }, [
        { server: "dockershim", values: [1, 3] },
        unknown,
        { server: "third", values: [1, 1] },
      ]),
      rowOf({ title: "Version, CPU of the server", unit: "ms", center: "mean" }, [
        { server: "dockershim", values: [10, 10] },
        { server: "other", values: [20, 20] },
        { server: "third", values: [0, 0] },
      ]),
    ],
  });
  assert.match(text, /^dockershim: \/run\/dockershim\.sock, no pod network$/m);
  assert.match(text, /^other: \/run\/other\.sock, pod address 10\.0\.0\.2$/m);
  assert.match(text, /^stopped while another server is measured: dockershim$/m);
  const cells = text.split("\n").map((line) => line.replace(/ +/g, " ").trim());
  assert.ok(cells.includes("| Status, ms | 1.50 (1.95) | 3.00 (3.90) | 0.50 | 0.50 to 0.50 |"));
  assert.ok(cells.includes("| Status, ms | 1.50 (1.95) | 1.00 (1.00) | 1.50 | 1.25 to 1.75 |"));
  assert.ok(cells.includes("| Status, CPU of the server, ms | 2.00 | - | - | - |"));
  assert.ok(cells.includes("| Version, CPU of the server, ms | 10.0 | 0.00 | ∞ | ∞ to ∞ |"));
});
