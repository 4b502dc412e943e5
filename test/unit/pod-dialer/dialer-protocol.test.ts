import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  dialFailure,
  encodeRequest,
  encodeWithdrawal,
  parseAnswer,
} from "../../../src/shim/pod-dialer/dialer-protocol.js";

describe("dialer protocol", () => {
  test("a request is four little-endian numbers, and a withdrawal has no namespace", () => {
    const request = encodeRequest({ id: 1, namespace: 0x102, port: 80, timeoutMs: 10_000 });
    assert.equal(request.toString("hex"), "01000000020100005000000010270000");
    assert.equal(encodeWithdrawal(7).toString("hex"), "07000000ffffffff0000000000000000");
  });

  for (const [message, outcome] of [
    [{ id: 7, sent: true }, "sent"],
    [
      { id: 7, step: "connect", errno: 111 },
      { step: "connect", errno: 111 },
    ],
  ] as const) {
    test(`parseAnswer(${JSON.stringify(message)})`, () => {
      assert.deepEqual(parseAnswer(message, false), { id: 7, outcome });
    });
  }

  test("what is no answer is none", () => {
    const noIds = [null, undefined, 7, "7", [], {}, { id: "7" }, { id: -1 }, { id: 1.5 }, { id: 2 ** 33 }];
    const noOutcomes = [{}, { sent: 1 }, { step: "connect" }, { errno: 111 }, { step: 1, errno: 111 }];
    const texts = { step: "connect", errno: "111" };
    for (const message of [...noIds, ...[...noOutcomes, texts].map((rest) => ({ id: 7, ...rest }))])
      assert.equal(parseAnswer(message, false), undefined, JSON.stringify(message));
  });

  test("a message with a socket is a connection, when it has an id", () => {
    assert.deepEqual(parseAnswer({ id: 7 }, true), { id: 7, outcome: "connection" });
    assert.equal(parseAnswer({}, true), undefined);
  });

  for (const { step, errno, kind, message } of [
    { step: "connect", errno: 111, kind: "unavailable", message: "connection refused" },
    { step: "connect", errno: 110, kind: "timeout", message: "no answer after 10s" },
    { step: "connect", errno: 101, kind: "unavailable", message: "ENETUNREACH" },
    { step: "connect", errno: 9999, kind: "unavailable", message: "Unknown system error -9999" },
    { step: "accept", errno: 11, kind: "exhausted", message: "too many connections are being made at once" },
    { step: "enter", errno: 1, kind: "unsupported", message: "enter the network namespace: EPERM" },
    { step: "enter", errno: 22, kind: "unavailable", message: "enter the network namespace: EINVAL" },
  ]) {
    test(`error ${String(errno)} of ${step} is ${kind}`, () => {
      const error = dialFailure({ step, errno }, 10_000);
      assert.deepEqual([error.kind, error.message], [kind, message]);
    });
  }
});
