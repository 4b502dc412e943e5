import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { fromDockerLabels, toDockerLabels } from "../../../src/shim/domain/labels.js";

test("toDockerLabels() prefixes annotations and lets the shim's own labels win", () => {
  assert.deepEqual(
    toDockerLabels(
      { a: "label", "io.kubernetes.docker.type": "forged" },
      { a: "annotation" },
      { "io.kubernetes.docker.type": "podsandbox" },
    ),
    { a: "label", "annotation.a": "annotation", "io.kubernetes.docker.type": "podsandbox" },
  );
});

describe("fromDockerLabels()", () => {
  test("hides the shim's own keys", () => {
    const { labels, annotations } = fromDockerLabels({
      "io.kubernetes.docker.type": "container",
      "io.kubernetes.sandbox.id": "s",
      "io.kubernetes.container.logpath": "/log",
      "io.kubernetes.container.name": "main",
      "annotation.io.kubernetes.docker.type": "kept",
    });
    assert.deepEqual(labels, { "io.kubernetes.container.name": "main" });
    assert.deepEqual(annotations, { "io.kubernetes.docker.type": "kept" });
  });

  test("hides the container name of sandboxes only", () => {
    const { labels } = fromDockerLabels({
      "io.kubernetes.docker.type": "podsandbox",
      "io.kubernetes.container.name": "POD",
    });
    assert.deepEqual(labels, {});
  });

  const own = { "io.kubernetes.docker.type": "podsandbox" };

  test("gives labels back that begin as annotations do", () => {
    const labels = { "annotation.a": "1", "annotation.annotation.b": "2" };
    const annotations = { b: "3", "annotation.c": "4" };
    const docker = toDockerLabels(labels, annotations, own);
    assert.equal(docker["annotation.a"], "1", "where dockershim has it");
    assert.deepEqual(fromDockerLabels(docker), { labels, annotations });
  });

  test("does not let the image of a container turn annotations into labels", () => {
    const docker = {
      "io.kubernetes.docker.type": "container",
      "annotation.hash": "1",
      "dockershim.prefixed-labels": '["annotation.hash"]',
    };
    assert.deepEqual(fromDockerLabels(docker), { labels: {}, annotations: { hash: "1" } });
  });

  test("lets an annotation win over a label of its Docker name", () => {
    const docker = toDockerLabels({ "annotation.a": "label" }, { a: "annotation" }, own);
    assert.deepEqual(fromDockerLabels(docker), { labels: {}, annotations: { a: "annotation" } });
  });

  for (const text of ["{", "{}", "null", '["annotation.b"]']) {
    test(`takes a foreign list of such labels for nothing: ${text}`, () => {
      const docker = { ...own, "annotation.a": "1", "dockershim.prefixed-labels": text };
      assert.deepEqual(fromDockerLabels(docker), { labels: {}, annotations: { a: "1" } });
    });
  }

  test("gives labels and annotations back as they were", () => {
    const key = fc
      .string({ minLength: 1 })
      .filter((text) => !text.startsWith("annotation.") && text !== "__proto__");

    const own = { "io.kubernetes.docker.type": "container", "io.kubernetes.sandbox.id": "s" };
    fc.assert(
      fc.property(fc.dictionary(key, fc.string()), fc.dictionary(key, fc.string()), (labels, annotations) => {
        assert.deepEqual(fromDockerLabels(toDockerLabels(labels, annotations, own)), {
          labels: { ...labels },
          annotations: { ...annotations },
        });
      }),
    );
  });
});
