import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { alternativeName, containerName, parseName, sandboxName } from "../../../src/domain/names.js";

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

test("a name with an underscore in any part is escaped in all parts, and says so at its end", () => {
  const odd = { name: "a_b", namespace: "x.y", uid: "u", attempt: 2 };
  assert.equal(sandboxName(odd), "k8s_POD_a.-b_x..y_u_2_escaped");
  assert.equal(containerName(odd, { name: "main", attempt: 7 }), "k8s_main_a.-b_x..y_u_7_escaped");
  assert.equal(containerName(pod, { name: "_", attempt: 7 }), "k8s_.-_web_default_uid-1_7_escaped");
  assert.equal(alternativeName(sandboxName(odd), 0xab), "k8s_POD_a.-b_x..y_u_2_escaped_000000ab");
});

test("containerName() gives what has no underscore the name that it always had", () => {
  const name = containerName(
    { name: "a.-b", namespace: "x..y", uid: "", attempt: 0 },
    { name: "C", attempt: 0 },
  );
  assert.equal(name, "k8s_C_a.-b_x..y__0");
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
    "k8s_main_a.b_default_uid-1_7_escaped",
    "k8s_main_a._default_uid-1_7_escaped",
    "k8s_main_web_default_uid-1_7_escaped_x_y",
    "k8s_main_web_default_uid-1_7_escaped_x",
    // Of cri-dockerd: the container main of the pod a_b in the namespace default, with the uid 1.
    "k8s_main_a_b_default_1_0",
  ];
  for (const name of foreign) {
    test(`leaves ${JSON.stringify(name)} alone`, () => {
      assert.equal(parseName(name), undefined);
    });
  }

  test("reads back what containerName() and alternativeName() made", () => {
    const part = fc.stringMatching(/^[a-zA-Z0-9._-]{0,20}$/);
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
          assert.match(text, /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/);
          assert.deepEqual(parseName(text), { container, pod: { name, namespace, uid }, attempt });
        },
      ),
    );
  });
});
