import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { normalizeReference, parseReference } from "../../../src/shim/domain/image-reference.js";

const digest = `sha256:${"0f".repeat(32)}`;

describe("parseReference()", () => {
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
    test(`reads ${text.slice(0, 60)}`, () => {
      assert.deepEqual(parseReference(text), expected);
    });
  }

  for (const text of [
    "",
    " busybox",
    "busybox ",
    "busy box",
    "Busybox",
    "user/App",
    "busybox:",
    ":1",
    "busybox:-1",
    `busybox:${"a".repeat(129)}`,
    "a//b",
    "/a",
    "a/",
    "a/../b",
    "../a",
    "a___b",
    "a..b",
    "-a",
    "a-",
    "-r.io/a",
    "r.io:port/a",
    "r..io/a",
    "[fd00::1/a",
    "a@",
    "a@sha256:",
    "a@sha256:0f",
    `a@sha256:${"0F".repeat(32)}`,
    `a@md5:${"0f".repeat(16)}`,
    `a@${digest}@${digest}`,
    `a@${digest}:1`,
    "0f".repeat(32),
    digest,
    `r.io/${"a".repeat(256)}`,
    "a\nb",
    "a\n",
    "a?b",
    "a%2fb",
    "http://r.io/a",
  ]) {
    test(`refuses ${JSON.stringify(text.slice(0, 60))}`, () => {
      assert.equal(parseReference(text), undefined);
    });
  }

  test("what it reads is a path that stays where it is, for any text", () => {
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
});

describe("normalizeReference()", () => {
  for (const [text, full] of [
    ["busybox", "docker.io/library/busybox:latest"],
    ["docker.io/library/busybox:latest", "docker.io/library/busybox:latest"],
    ["r.io/a:1", "r.io/a:1"],
    [`r.io/a:1@${digest}`, `r.io/a@${digest}`],
    [digest, digest],
    ["not a reference", "not a reference"],
  ] as const) {
    test(`${text.slice(0, 40)} is ${full.slice(0, 40)}`, () => {
      assert.equal(normalizeReference(text), full);
    });
  }

  test("is its own fixed point", () => {
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
});
