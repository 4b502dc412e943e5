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
