import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { aggregate, isKind, messageOf, ShimError } from "../../../src/lib/errors.js";

describe("ShimError.from()", () => {
  const own = new ShimError("conflict", "taken");
  const wrapped = new Error("aborted", { cause: own });
  wrapped.name = "AbortError";
  const table: readonly (readonly [string, unknown, string, string])[] = [
    ["keeps a ShimError", own, "conflict", "taken"],
    ["reads Node's timeouts", new DOMException("slow", "TimeoutError"), "timeout", "slow"],
    ["reads aborts", new DOMException("stop", "AbortError"), "cancelled", "stop"],
    ["reads the cause of aborts", wrapped, "conflict", "taken"],
    ["calls the rest internal", new TypeError("oops"), "internal", "oops"],
    ["takes what is no error", "text", "internal", "text"],
  ];
  for (const [name, thrown, kind, message] of table) {
    test(name, () => {
      const error = ShimError.from(thrown);
      assert.deepEqual([error.kind, error.message], [kind, message]);
    });
  }

  test("uses the fallback kind, and keeps the cause", () => {
    const cause = new Error("x");
    const error = ShimError.from(cause, "unavailable");
    assert.equal(error.kind, "unavailable");
    assert.equal(error.cause, cause);
  });
});

test("within() keeps kind and fields and puts the action before the message", () => {
  const inner = new ShimError("notFound", "no such image", { image: "x" });
  const outer = inner.within('pull image "x"', { image: "outer", pod: "ns/p" });
  assert.equal(outer.kind, "notFound");
  assert.equal(outer.message, 'pull image "x": no such image');
  assert.deepEqual(outer.fields, { image: "x", pod: "ns/p" });
  assert.equal(outer.cause, inner);
});

test("within() leaves a constant of the CRI at the beginning, where kubelets look for it", () => {
  const inner = new ShimError("precondition", "ImageVolumeMountFailed: no such image");
  const outer = inner.within("mount it").within("create container");
  assert.equal(outer.message, "ImageVolumeMountFailed: create container: mount it: no such image");
  const other = new ShimError("precondition", "SomethingElse: no such image");
  assert.equal(other.within("mount it").message, "mount it: SomethingElse: no such image");
});

test("aggregate() has the kind of the first error and the messages of all, each once", () => {
  const [a, b] = [new ShimError("timeout", "slow"), new ShimError("conflict", "taken")];
  const again = new ShimError("unknown", "slow");
  assert.deepEqual([aggregate([]), aggregate([a]), aggregate([a, again])], [undefined, a, a]);
  const error = aggregate([a, b, again]);
  assert.deepEqual([error?.kind, error?.message], ["timeout", "[slow, taken]"]);
});

test("isKind() knows kinds of ShimErrors only, and messageOf() takes anything that was thrown", () => {
  const denied = new ShimError("denied", "no");
  const known = [isKind(denied, "invalid", "denied"), isKind(denied, "invalid")];
  assert.deepEqual([...known, isKind(new Error("denied"), "denied")], [true, false, false]);
  assert.deepEqual([new Error("e"), "s", undefined].map(messageOf), ["e", "s", "undefined"]);
});
