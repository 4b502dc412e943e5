import assert from "node:assert/strict";
import { test } from "node:test";
import { Signal } from "../../../src/domain/cri.js";
import { stopSignalName, stopSignalNumber, stopTimeoutSeconds } from "../../../src/domain/stop-signal.js";

test("stopTimeoutSeconds() is between none and a year", () => {
  const year = 31_536_000;
  for (const [text, seconds] of Object.entries({ "-1": 0, "0": 0, "30": 30, [year]: year, [year + 1]: year }))
    assert.equal(stopTimeoutSeconds(text), seconds, text);
  assert.equal(stopTimeoutSeconds("9223372036854775807"), year);
});

test("stopSignalNumber() reads numbers, and names with and without SIG", () => {
  for (const [text, number] of Object.entries({
    SIGTERM: Signal.SIGNAL_SIGTERM,
    TERM: Signal.SIGNAL_SIGTERM,
    term: Signal.SIGNAL_SIGTERM,
    15: Signal.SIGNAL_SIGTERM,
    9: Signal.SIGNAL_SIGKILL,
    SIGRTMIN: Signal.SIGNAL_SIGRTMIN,
    "SIGRTMIN+3": Signal.SIGNAL_SIGRTMINPLUS3,
    "RTMAX-2": Signal.SIGNAL_SIGRTMAXMINUS2,
    SIGNOTHING: 0,
    "": 0,
  }))
    assert.equal(stopSignalNumber(text), number, text);
});

test("stopSignalName() gives Docker's name of each signal, and none for others", () => {
  assert.equal(stopSignalName(Signal.SIGNAL_SIGRTMINPLUS15), "SIGRTMIN+15");
  assert.equal(stopSignalName(Signal.SIGNAL_SIGRTMAXMINUS1), "SIGRTMAX-1");
  assert.equal(stopSignalName(Signal.SIGNAL_RUNTIME_DEFAULT), undefined);
  assert.equal(stopSignalName(4711), undefined);
  for (const [name, number] of Object.entries(Signal).filter(([, value]) => value !== 0)) {
    const docker = stopSignalName(number) ?? "none";
    assert.match(docker, /^SIG/, name);
    assert.equal(stopSignalNumber(docker), number, name);
  }
});
