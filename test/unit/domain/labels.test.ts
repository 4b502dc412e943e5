import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { fromDockerLabels, isMadeHere, madeLabels, toDockerLabels } from "../../../src/domain/labels.js";

test("toDockerLabels() prefixes annotations and lets the shim's own labels win", () => {
  assert.deepEqual(
    toDockerLabels(
      { a: "label", "io.kubernetes.docker.type": "forged" },
      { a: "annotation" },
      { "io.kubernetes.docker.type": "podsandbox" },
    ),
    {
      ...{ a: "label", "annotation.a": "annotation", "io.kubernetes.docker.type": "podsandbox" },
      "dockershim.label-keys": '{"sandbox":"","keys":["a","io.kubernetes.docker.type","annotation.a"]}',
    },
  );
});

describe("madeLabels()", () => {
  const container = { "io.kubernetes.docker.type": "container", "io.kubernetes.sandbox.id": "s" };
  const image = { a: "image", b: "image", "annotation.c": "image", "dockershim.image-mounts": "image" };

  test("leaves out what the image has added", () => {
    const made = { a: "1", "annotation.d": "2", ...container };
    const ours = toDockerLabels({ a: "1" }, { d: "2" }, container);
    const docker = { ...image, ...ours };
    const list = { "dockershim.label-keys": ours["dockershim.label-keys"] };
    assert.deepEqual(madeLabels(docker), { ...made, ...list });
    assert.equal(isMadeHere(madeLabels(docker)), true);
  });

  test("believes no list that came with the image", () => {
    for (const sandbox of ["", "t"]) {
      const keys = JSON.stringify({ sandbox, keys: ["a", "io.kubernetes.docker.type"] });
      const docker = { ...image, ...container, "dockershim.label-keys": keys };
      assert.deepEqual(madeLabels(docker), { a: "image", b: "image", "annotation.c": "image", ...container });
    }
  });

  test("keeps all labels of what is no part of a pod", () => {
    assert.deepEqual(madeLabels({ a: "1", "dockershim.scratch": "2" }), {
      a: "1",
      "dockershim.scratch": "2",
    });
  });

  test("lets no image take the labels of helpers away", () => {
    const keys = ["io.kubernetes.docker.type"];
    const image = { "dockershim.label-keys": JSON.stringify({ keys }) };
    const others = { "io.kubernetes.sandbox.id": "s" };
    const withId = { ...others, "dockershim.label-keys": JSON.stringify({ sandbox: "s", keys }) };
    const helper = { "dockershim.scratch": "2", "io.kubernetes.docker.type": "" };
    assert.deepEqual(madeLabels({ ...image, ...helper }), helper);
    assert.deepEqual(madeLabels({ ...withId, ...helper }), { ...others, ...helper });
  });
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
    const sandbox = { "io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD" };
    assert.deepEqual(fromDockerLabels(sandbox).labels, {});
  });

  const own = { "io.kubernetes.docker.type": "podsandbox" };

  test("gives labels back that begin as annotations do", () => {
    const labels = { "annotation.a": "1", "annotation.annotation.b": "2" };
    const annotations = { b: "3", "annotation.c": "4" };
    for (const type of ["podsandbox", "container"]) {
      const docker = toDockerLabels(labels, annotations, { "io.kubernetes.docker.type": type });
      assert.equal(docker["annotation.a"], "1", "where dockershim has it");
      assert.deepEqual(fromDockerLabels(docker), { labels, annotations });
    }
  });

  test("does not let the image of a container turn annotations into labels", () => {
    const docker = {
      "io.kubernetes.docker.type": "container",
      "annotation.hash": "1",
      "dockershim.prefixed-labels": '["annotation.hash"]',
    };
    assert.deepEqual(fromDockerLabels(madeLabels(docker)), { labels: {}, annotations: { hash: "1" } });
  });

  test("lets an annotation win over a label of its Docker name", () => {
    const docker = toDockerLabels({ "annotation.a": "label" }, { a: "annotation" }, own);
    assert.deepEqual(fromDockerLabels(docker), { labels: {}, annotations: { a: "annotation" } });
  });

  test("takes a foreign list of such labels for nothing", () => {
    for (const text of ["{", "{}", "null", '["annotation.b"]']) {
      const docker = { ...own, "annotation.a": "1", "dockershim.prefixed-labels": text };
      assert.deepEqual(fromDockerLabels(docker), { labels: {}, annotations: { a: "1" } }, text);
    }
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
