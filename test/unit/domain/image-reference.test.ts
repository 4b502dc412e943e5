import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  normalizeReference,
  parseReference,
  imageNameMatcher,
  imagePatternFault,
} from "../../../src/domain/image-reference.js";

const digest = `sha256:${"0f".repeat(32)}`;

test("parseReference() reads registry, repository, tag and digest", () => {
  for (const [text, expected] of [
    ["busybox", { registry: "docker.io", repository: "docker.io/library/busybox" }],
    ["busybox:1", { registry: "docker.io", repository: "docker.io/library/busybox", tag: "1" }],
    ["user/app", { registry: "docker.io", repository: "docker.io/user/app" }],
    ["docker.io/busybox", { registry: "docker.io", repository: "docker.io/library/busybox" }],
    ["index.docker.io/busybox", { registry: "docker.io", repository: "docker.io/library/busybox" }],
    ["index.docker.io/a/b:c", { registry: "docker.io", repository: "docker.io/a/b", tag: "c" }],
    ["localhost/a", { registry: "localhost", repository: "localhost/a" }],
    ["localhost:5000", { registry: "docker.io", repository: "docker.io/library/localhost", tag: "5000" }],
    ["localhost:5000/a:1", { registry: "localhost:5000", repository: "localhost:5000/a", tag: "1" }],
    ["UPPER/a", { registry: "UPPER", repository: "UPPER/a" }],
    ["[fd00::1]:5000/a/b", { registry: "[fd00::1]:5000", repository: "[fd00::1]:5000/a/b" }],
    ["[fd00::1]/a", { registry: "[fd00::1]", repository: "[fd00::1]/a" }],
    [
      "a.b-c.d/e__f/g---h.i_j:T_x.y-z",
      { registry: "a.b-c.d", repository: "a.b-c.d/e__f/g---h.i_j", tag: "T_x.y-z" },
    ],
    [`r.io/a@${digest}`, { registry: "r.io", repository: "r.io/a", digest }],
    [`r.io/a:1@${digest}`, { registry: "r.io", repository: "r.io/a", tag: "1", digest }],
    ["cafe", { registry: "docker.io", repository: "docker.io/library/cafe" }],
    [`r.io/${"a".repeat(255)}`, { registry: "r.io", repository: `r.io/${"a".repeat(255)}` }],
  ] as const) {
    assert.deepEqual(parseReference(text), expected, text);
  }
});

test("parseReference() refuses what is no reference", () => {
  const [hex, long] = ["0f".repeat(32), "a".repeat(256)];
  for (const text of [
    ...["", " busybox", "busybox ", "busy box", "Busybox", "user/App", "busybox:", ":1", "busybox:-1"],
    ...["a//b", "/a", "a/", "a/../b", "../a", "a___b", "a..b", "-a", "a-", "-r.io/a", "r.io:port/a"],
    ...["r..io/a", "[fd00::1/a", "a@", "a@sha256:", "a@sha256:0f", `a@sha256:${"0F".repeat(32)}`],
    ...[`a@md5:${"0f".repeat(16)}`, `a@${digest}@${digest}`, `a@${digest}:1`, hex, digest, `r.io/${long}`],
    ...["a\nb", "a\n", "a?b", "a%2fb", "http://r.io/a", `busybox:${"a".repeat(129)}`],
  ])
    assert.equal(parseReference(text), undefined, JSON.stringify(text));
});

test("parseReference() reads paths that stay where they are, for any text", () => {
  const text = fc.string({
    unit: fc.constantFrom("a", "B", "0", ".", "/", ":", "@", "-", "_", "[", "]", " ", "é"),
  });
  fc.assert(
    fc.property(text, (input) => {
      const reference = parseReference(input);
      if (reference === undefined) return;
      assert.ok(!reference.repository.split("/").some((part) => ["", ".", ".."].includes(part)));
      assert.ok(reference.repository.startsWith(`${reference.registry}/`));
    }),
  );
});

test("normalizeReference() names registry and tag, of itself, too", () => {
  for (const [text, full] of [
    ["busybox", "docker.io/library/busybox:latest"],
    ["docker.io/library/busybox:latest", "docker.io/library/busybox:latest"],
    ["r.io/a:1", "r.io/a:1"],
    [`r.io/a:1@${digest}`, `r.io/a@${digest}`],
    [digest, digest],
    ["not a reference", "not a reference"],
  ] as const) {
    assert.equal(normalizeReference(text), full);
  }
  const part = fc.stringMatching(/^[a-z0-9]{1,8}$/);
  const name = fc
    .tuple(fc.array(part, { minLength: 1, maxLength: 3 }), fc.option(part))
    .map(([parts, tag]) => {
      return parts.join("/") + (tag === null ? "" : `:${tag}`);
    });
  fc.assert(
    fc.property(name, (text) => {
      assert.equal(normalizeReference(normalizeReference(text)), normalizeReference(text));
    }),
  );
});

test("imageNameMatcher() matches names as they are meant, and by their beginning or a part", () => {
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
    assert.equal(imagePatternFault(pattern), undefined);
    assert.equal(imageNameMatcher([pattern])(name), expected, `${pattern} of ${name}`);
  }
});

test("imageNameMatcher() of several patterns matches what one of them matches, of none nothing", () => {
  const matches = imageNameMatcher(["busybox", "registry.example/*", "*web*"]);
  const names = ["busybox:latest", "registry.example/a:1", "other.example/web:1", "other.example/a:1"];
  assert.deepEqual(names.map(matches), [true, true, true, false]);
  assert.equal(imageNameMatcher([])("busybox:latest"), false);
});

test("imagePatternFault() refuses what is neither a reference nor a pattern with its asterisks at the ends", () => {
  for (const pattern of ["", "UPPER", "a b", digest])
    assert.match(imagePatternFault(pattern) ?? "", /not an image reference/);
  for (const pattern of ["*web", "a*b", "a*b*", "*a*b*", "***", "a**"])
    assert.match(imagePatternFault(pattern) ?? "", /at its end, or one at each end/);
});
