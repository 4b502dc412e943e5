import assert from "node:assert/strict";
import { test } from "node:test";
import { createLogger, type Logger } from "../../../src/lib/log.js";

function recorded(level: "debug" | "info"): { readonly log: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  return { log: createLogger(level, { write: (line) => void lines.push(line) }), lines };
}

/** Without time and level. */
const fieldsOf = (line = ""): object => {
  const { time, level: _level, ...fields } = JSON.parse(line) as Record<string, unknown>;
  assert.match(String(time), /^\d{4}-\d\d-\d\dT/);
  return fields;
};

test("a child's lines have its fields, and each key once", () => {
  const { log, lines } = recorded("info");
  const child = log.child({ rpc: "StartContainer", containerId: "c1" }).child({ req: 1 });
  child.info("started");
  child.warn({ containerId: "c1-in-full", code: "UNKNOWN" }, "failed");
  assert.deepEqual(lines.map(fieldsOf), [
    { rpc: "StartContainer", containerId: "c1", req: 1, msg: "started" },
    { rpc: "StartContainer", containerId: "c1-in-full", req: 1, code: "UNKNOWN", msg: "failed" },
  ]);
  for (const line of lines) assert.equal(line.split('"containerId"').length, 2, line);
});

test("errors are written with their message and stack", () => {
  const { log, lines } = recorded("info");
  log.child({ rpc: "Version" }).error({ err: new TypeError("x is no function") }, "failed");
  const { err } = fieldsOf(lines[0]) as {
    readonly err: { readonly message: string; readonly stack: string };
  };
  assert.equal(err.message, "x is no function");
  assert.match(err.stack, /log\.test/);
});
