import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { alternativeName, containerName, parseName, sandboxName } from "../../../src/domain/names.js";

const pod = { name: "web", namespace: "default", uid: "uid-1", attempt: 2 };

test("names are dockershim's, with a uint32 as eight hex digits for an alternative one", () => {
  assert.equal(sandboxName(pod), "k8s_POD_web_default_uid-1_2");
  assert.equal(containerName(pod, { name: "main", attempt: 7 }), "k8s_main_web_default_uid-1_7");
  const plain = { name: "a.-b", namespace: "x..y", uid: "", attempt: 0 };
  assert.equal(containerName(plain, { name: "C", attempt: 0 }), "k8s_C_a.-b_x..y__0");
  assert.equal(alternativeName("k8s_a", 0), "k8s_a_00000000");
  assert.equal(alternativeName("k8s_a", 0xffff_ffff), "k8s_a_ffffffff");
});

test("a name with an underscore in any part is escaped in all parts, and says so at its end", () => {
  const odd = { name: "a_b", namespace: "x.y", uid: "u", attempt: 2 };
  assert.equal(containerName(odd, { name: "main", attempt: 7 }), "k8s_main_a.-b_x..y_u_7_escaped");
  assert.equal(containerName(pod, { name: "_", attempt: 7 }), "k8s_.-_web_default_uid-1_7_escaped");
  assert.equal(alternativeName(sandboxName(odd), 0xab), "k8s_POD_a.-b_x..y_u_2_escaped_000000ab");
});

test("parseName() reads names with a slash and with a suffix, and leaves foreign ones alone", () => {
  const parsed = { container: "main", pod: { name: "web", namespace: "default", uid: "uid-1" }, attempt: 7 };
  const name = "k8s_main_web_default_uid-1_7";
  for (const own of [name, `/${name}`, `${name}_0badcafe`]) assert.deepEqual(parseName(own), parsed, own);
  for (const foreign of [
    ...["", "k8s", "web", "k9s_main_web_default_uid-1_7", "k8s_main_web_default_uid-1"],
    ...["k8s_main_web_default_uid-1_x", "k8s_main_web_default_uid-1_-1"],
    ...["k8s_main_web_default_uid-1_4294967296", `${name}_aa_bb`, `${name}_escaped_x_y`, `${name}_escaped_x`],
    ...["k8s_main_a.b_default_uid-1_7_escaped", "k8s_main_a._default_uid-1_7_escaped"],
    // Of cri-dockerd: the container main of the pod a_b in the namespace default, with the uid 1.
    "k8s_main_a_b_default_1_0",
  ])
    assert.equal(parseName(foreign), undefined, foreign);
});

test("parseName() reads back what containerName() and alternativeName() made", () => {
  const part = fc.stringMatching(/^[a-zA-Z0-9._-]{0,20}$/);
  const uint32 = fc.integer({ min: 0, max: 0xffff_ffff });
  fc.assert(
    fc.property(
      fc.record({ name: part, namespace: part, uid: part }),
      fc.record({ name: part, attempt: uint32 }),
      fc.option(uint32),
      (identity, container, random) => {
        const made = containerName({ ...identity, attempt: 0 }, container);
        const text = random === null ? made : alternativeName(made, random);
        assert.match(text, /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/);
        const { name, attempt } = container;
        assert.deepEqual({ ...parseName(text) }, { container: name, pod: { ...identity }, attempt });
      },
    ),
  );
});
