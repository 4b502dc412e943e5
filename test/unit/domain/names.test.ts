import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { alternativeName, containerName, parseName, sandboxName } from "../../../src/shim/domain/names.js";

const pod = { name: "web", namespace: "default", uid: "uid-1", attempt: 2 };

test("sandboxName() and containerName() are dockershim's", () => {
  assert.equal(sandboxName(pod), "k8s_POD_web_default_uid-1_2");
  assert.equal(containerName(pod, { name: "main", attempt: 7 }), "k8s_main_web_default_uid-1_7");
});

test("alternativeName() adds a uint32 as eight hex digits", () => {
  assert.equal(alternativeName("k8s_a", 0), "k8s_a_00000000");
  assert.equal(alternativeName("k8s_a", 0xffff_ffff), "k8s_a_ffffffff");
  assert.equal(alternativeName("k8s_a", 0xab), "k8s_a_000000ab");
});

describe("parseName()", () => {
  const parsed = { container: "main", pod: { name: "web", namespace: "default", uid: "uid-1" }, attempt: 7 };
  const good = [
    "k8s_main_web_default_uid-1_7",
    "/k8s_main_web_default_uid-1_7",
    "k8s_main_web_default_uid-1_7_0badcafe",
  ];
  for (const name of good) {
    test(`reads ${name}`, () => {
      assert.deepEqual(parseName(name), parsed);
    });
  }
  const foreign = [
    "",
    "k8s",
    "web",
    "k9s_main_web_default_uid-1_7",
    "k8s_main_web_default_uid-1",
    "k8s_main_web_default_uid-1_x",
    "k8s_main_web_default_uid-1_-1",
    "k8s_main_web_default_uid-1_4294967296",
    "k8s_main_web_default_uid-1_7_aa_bb",
  ];
  for (const name of foreign) {
    test(`leaves ${JSON.stringify(name)} alone`, () => {
      assert.equal(parseName(name), undefined);
    });
  }

  test("reads back what containerName() and alternativeName() made", () => {
    const part = fc.stringMatching(/^[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?$/);
    const uint32 = fc.integer({ min: 0, max: 0xffff_ffff });
    fc.assert(
      fc.property(
        part,
        part,
        part,
        part,
        uint32,
        fc.option(uint32),
        (container, name, namespace, uid, attempt, random) => {
          const made = containerName({ name, namespace, uid, attempt: 0 }, { name: container, attempt });
          const text = random === null ? made : alternativeName(made, random);
          assert.deepEqual(parseName(text), { container, pod: { name, namespace, uid }, attempt });
        },
      ),
    );
  });
});
