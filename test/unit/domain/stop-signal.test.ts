import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Signal } from "../../../src/domain/cri.js";
import { stopSignalName, stopSignalNumber, stopTimeoutSeconds } from "../../../src/domain/stop-signal.js";

describe("stopTimeoutSeconds()", () => {
  const table = [
    ["-1", 0],
    ["0", 0],
    ["30", 30],
    ["31536000", 31_536_000],
    ["31536001", 31_536_000],
    ["9223372036854775807", 31_536_000],
  ] as const;
  for (const [text, seconds] of table) {
    test(`${text} is ${seconds}`, () => {
      assert.equal(stopTimeoutSeconds(text), seconds);
    });
  }
});

describe("stopSignalNumber()", () => {
  const table = [
    ["SIGTERM", Signal.SIGNAL_SIGTERM],
    ["TERM", Signal.SIGNAL_SIGTERM],
    ["term", Signal.SIGNAL_SIGTERM],
    ["15", Signal.SIGNAL_SIGTERM],
    ["9", Signal.SIGNAL_SIGKILL],
    ["SIGRTMIN", Signal.SIGNAL_SIGRTMIN],
    ["SIGRTMIN+3", Signal.SIGNAL_SIGRTMINPLUS3],
    ["RTMAX-2", Signal.SIGNAL_SIGRTMAXMINUS2],
    ["SIGNOTHING", 0],
    ["", 0],
  ] as const;
  for (const [text, number] of table) {
    test(`"${text}" is ${number}`, () => {
      assert.equal(stopSignalNumber(text), number);
    });
  }
});

describe("stopSignalName()", () => {
  test("has none for the runtime's default and for unknown numbers", () => {
    assert.equal(stopSignalName(Signal.SIGNAL_RUNTIME_DEFAULT), undefined);
    assert.equal(stopSignalName(4711), undefined);
  });

  test("names real-time signals as Docker does", () => {
    assert.equal(stopSignalName(Signal.SIGNAL_SIGRTMINPLUS15), "SIGRTMIN+15");
    assert.equal(stopSignalName(Signal.SIGNAL_SIGRTMAXMINUS1), "SIGRTMAX-1");
  });

  for (const [name, number] of Object.entries(Signal).filter(([, value]) => value !== 0)) {
    test(`${name} comes back from its Docker name`, () => {
      const docker = stopSignalName(number) ?? "none";
      assert.match(docker, /^SIG/);
      assert.equal(stopSignalNumber(docker), number);
    });
  }
});
