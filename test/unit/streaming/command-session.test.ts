import assert from "node:assert/strict";
import { test } from "node:test";
import { exitStatus, failureStatus, formatStatus } from "../../../src/shim/streaming/command-session.js";

for (const [name, status, json, text] of [
  ["success", exitStatus(0), '{"metadata":{},"status":"Success"}', ""],
  [
    "an exit code",
    exitStatus(3),
    '{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: Error executing in Docker Container: 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}',
    "command terminated with non-zero exit code: Error executing in Docker Container: 3",
  ],
  [
    "a failed exec",
    failureStatus("exec", new Error("boom")),
    '{"metadata":{},"status":"Failure","message":"Internal error occurred: error executing command in container: boom","reason":"InternalError","details":{"causes":[{"message":"error executing command in container: boom"}]},"code":500}',
    "Internal error occurred: error executing command in container: boom",
  ],
  [
    "a failed attach",
    failureStatus("attach", new Error("boom")),
    '{"metadata":{},"status":"Failure","message":"Internal error occurred: error attaching to container: boom","reason":"InternalError","details":{"causes":[{"message":"error attaching to container: boom"}]},"code":500}',
    "Internal error occurred: error attaching to container: boom",
  ],
] as const) {
  test(`formatStatus() writes ${name} as Kubernetes does, and before v4 as its message`, () => {
    assert.equal(formatStatus(status, "json"), json);
    assert.equal(formatStatus(status, "text"), text);
  });
}
