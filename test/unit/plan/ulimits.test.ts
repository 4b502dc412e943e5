import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind } from "../../../src/lib/errors.js";
import { ulimitError, ulimitsField } from "../../../src/shim/plan/ulimits.js";

const nofile = { Name: "nofile", Soft: 1024, Hard: 4096 };
const core = { Name: "core", Soft: -1, Hard: -1 };

test("ulimitsField() lets the later list win by name", () => {
  const more = { Name: "nofile", Soft: 2048, Hard: 4096 };
  assert.deepEqual(ulimitsField([nofile, core], [more]), [more, core]);
  assert.equal(ulimitsField([], []), undefined);
});

describe("ulimitError()", () => {
  const runc = new Error("OCI runtime create failed: error setting rlimit type 7: operation not permitted");
  const crun = new Error(
    "OCI runtime create failed: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted",
  );

  for (const [runtime, error] of Object.entries({ runc, crun })) {
    test(`names the flag, its values and the remedy for the error of ${runtime}`, () => {
      const told = ulimitError(error, [nofile, core]);
      assert.ok(isKind(told, "precondition"));
      assert.match(
        told.message,
        /^set the ulimits of --default-ulimits \(nofile=1024:4096, core=-1:-1\): .*CAP_SYS_RESOURCE/,
      );
      assert.ok(told.message.endsWith(error.message));
    });
  }

  test("names the engine's configuration when the flag has no ulimits", () => {
    assert.match(ulimitError(runc, [])?.message ?? "", /^set the ulimits of the engine's configuration: /);
  });

  test("ignores other errors", () => {
    const runc = "OCI runtime create failed: runc create failed: unable to start container process";
    for (const text of [
      "executable file not found in $PATH",
      // Commands and paths are the words of the pod's author.
      `${runc}: exec: "setrlimit": executable file not found in $PATH: unknown`,
      `${runc}: exec: "/bin/setting rlimit": stat /bin/setting rlimit: no such file or directory: unknown`,
    ])
      assert.equal(ulimitError(new Error(text), [nofile]), undefined, text);
  });
});
