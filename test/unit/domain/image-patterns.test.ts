import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { imageNameMatcher, imagePatternFault } from "../../../src/shim/domain/image-patterns.js";

const digest = `sha256:${"d".repeat(64)}`;

describe("imageNameMatcher()", () => {
  const cases: readonly (readonly [string, string, boolean])[] = [
    ["busybox", "busybox:latest", true],
    ["docker.io/library/busybox:latest", "busybox:latest", true],
    ["busybox", "busybox:1", false],
    ["busybox:1", "busybox:1", true],
    ["busybox:1", "busybox:10", false],
    ["registry.example:5000/app:1", "registry.example:5000/app:1", true],
    ["registry.example/app:1", "other.example/app:1", false],
    [`app@${digest}`, `app@${digest}`, true],
    [`app:1@${digest}`, `app@${digest}`, true],
    [`app@${digest}`, `other@${digest}`, false],
    ["registry.example/*", "registry.example/app:1", true],
    ["registry.example/*", `registry.example/app@${digest}`, true],
    ["registry.example/*", "mirror/registry.example/app:1", false],
    ["busybox*", "busybox:1", true],
    ["docker.io/library/*", "busybox:1", true],
    ["docker.io/*", "registry.example/app:1", false],
    ["*web*", "registry.example/web-server:1", true],
    ["*library*", "busybox:1", true],
    ["*web*", "registry.example/app:1", false],
    ["*", "busybox:1", true],
    ["**", "busybox:1", true],
    // A dot is a dot.
    ["registry.example/*", "registryxexample/app:1", false],
    ["*a.b*", "axb:1", false],
  ];
  for (const [pattern, name, expected] of cases) {
    const short = (text: string): string => text.replace(digest, "sha256:d…");
    test(`${short(pattern)} ${expected ? "matches" : "does not match"} ${short(name)}`, () => {
      assert.equal(imagePatternFault(pattern), undefined);
      assert.equal(imageNameMatcher([pattern])(name), expected);
    });
  }
});

test("imageNameMatcher() of several patterns matches what one of them matches, of none nothing", () => {
  const matches = imageNameMatcher(["busybox", "registry.example/*", "*web*"]);
  const names = ["busybox:latest", "registry.example/a:1", "other.example/web:1", "other.example/a:1"];
  assert.deepEqual(names.map(matches), [true, true, true, false]);
  assert.equal(imageNameMatcher([])("busybox:latest"), false);
});

describe("imagePatternFault()", () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["", /not an image reference/],
    ["UPPER", /not an image reference/],
    ["a b", /not an image reference/],
    [digest, /not an image reference/],
    ["*web", /at its end, or one at each end/],
    ["a*b", /at its end, or one at each end/],
    ["a*b*", /at its end, or one at each end/],
    ["*a*b*", /at its end, or one at each end/],
    ["***", /at its end, or one at each end/],
    ["a**", /at its end, or one at each end/],
  ];
  for (const [pattern, reason] of cases) {
    test(`refuses ${JSON.stringify(pattern.slice(0, 20))}`, () => {
      assert.match(imagePatternFault(pattern) ?? "", reason);
    });
  }
});
