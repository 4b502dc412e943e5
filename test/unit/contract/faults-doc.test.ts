import assert from "node:assert/strict";
import { test } from "node:test";
import { rpcs as table } from "../../../src/shim/cri/rpcs.js";
import { documentWithTable } from "../../support/fault-table-doc.js";
import { faultTable, withoutRequests } from "../../support/fault-table.js";

test("docs/run/faults.md has the fault table of the tests (node --import tsx test/support/fault-table-doc.ts)", async () => {
  const { present, wanted } = await documentWithTable();
  assert.equal(present, wanted);
});

test("every RPC has a row in the fault table, or is said to make no engine request, which a test on the engine proves", () => {
  const rpcs = Object.keys(table);
  const named = new Set([...faultTable.map(({ rpc }) => rpc), ...withoutRequests]);
  const sessions = ["Exec", "Attach", "PortForward"].map((rpc) => `${rpc} session`);
  const all = [...rpcs, ...sessions];
  const missing = all.filter((rpc) => !named.has(rpc));
  assert.deepEqual(missing, []);
  const unknown = [...named].filter((name) => !all.includes(name.replace(/ with a terminal$/, "")));
  assert.deepEqual(unknown, []);
});
