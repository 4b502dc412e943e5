import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind } from "../../src/lib/errors.js";
import type { PullProgress } from "../../src/shim/ports/engine.js";
import { startRegistry } from "../support/single-image-registry.js";
import { anySignal } from "../support/engine-contract.js";
import { engineOfSuite, reasonToSkip } from "./engine-support.js";

describe("DockerEngine, images", { skip: await reasonToSkip(), timeout: 120_000 }, () => {
  const at = engineOfSuite();

  test("a loaded image is there by name, id and short id, and in the list", async () => {
    const { engine, image } = at;
    const byName = await engine.inspectImage(image, anySignal());
    assert.ok(byName);
    assert.match(byName.id, /^sha256:[0-9a-f]{64}$/);
    assert.deepEqual(byName.repoTags, [image]);
    assert.ok(byName.size > 500_000, String(byName.size));
    assert.deepEqual([byName.os, byName.architecture], ["linux", at.facts.architecture]);
    assert.deepEqual([byName.user, byName.labels["marker"], byName.layers.length], ["0", "", 2]);
    assert.deepEqual(byName.config["Cmd"], ["sleep", "3600"]);
    for (const reference of [byName.id, byName.id.slice(7), byName.id.slice(7, 19)]) {
      assert.equal((await engine.inspectImage(reference, anySignal()))?.id, byName.id, reference);
    }
    const listed = (await engine.listImages(anySignal())).find(({ id }) => id === byName.id);
    assert.deepEqual(listed?.repoTags, [image]);
    assert.ok(listed.size > 500_000);
    const history = await engine.imageHistory(byName.id, anySignal());
    assert.equal(history.length, 2);
    const usage = await engine.imageDiskUsage(anySignal());
    assert.ok(usage !== undefined && usage >= listed.size * 0.9, String(usage));
  });

  test("what is no image name is invalid", async () => {
    await assert.rejects(at.engine.inspectImage("UPPER", anySignal()), (error) => isKind(error, "invalid"));
    await assert.rejects(
      at.engine.pullImage("UPPER", undefined, () => undefined, anySignal()),
      (error) => isKind(error, "invalid"),
    );
  });

  test("loading what is no image is an error", async () => {
    await assert.rejects(at.engine.loadImage(Buffer.from("no tar"), anySignal()));
  });

  test("a pull reports progress and ends with the image, by tag and by digest", async () => {
    const name = `engine-pull-${at.run}`;
    await using registry = await startRegistry(await at.archive(`dockershim.local/${name}:1`, "pull"));
    const repository = `${registry.host}/test/${name}`;
    for (const reference of [`${repository}:1`, `${repository}@${registry.manifestDigest}`]) {
      const messages: PullProgress[] = [];
      await at.engine.pullImage(reference, undefined, (message) => messages.push(message), anySignal());
      assert.ok(
        messages.some(({ status }) => status.startsWith("Digest: ")),
        JSON.stringify(messages),
      );
      const image = await at.engine.inspectImage(reference, anySignal());
      assert.ok(image);
      assert.ok(image.repoDigests.includes(`${repository}@${registry.manifestDigest}`), reference);
      await at.engine.removeImage(reference, anySignal());
      await at.engine.removeImage(image.id, anySignal());
      assert.equal(await at.engine.inspectImage(image.id, anySignal()), undefined);
    }
  });

  test("credentials open a registry, whatever address they come with; wrong and missing ones are denied", async () => {
    const name = `engine-login-${at.run}`;
    await using registry = await startRegistry(
      await at.archive(`dockershim.local/${name}:1`, "login"),
      "user:se:cret/?",
    );
    const reference = `${registry.host}/test/${name}:1`;
    const pull = async (username?: string, password?: string): Promise<void> => {
      const credentials =
        username === undefined || password === undefined
          ? undefined
          : { username, password, serverAddress: "https://elsewhere.example/v2/" };
      await at.engine.pullImage(reference, credentials, () => undefined, anySignal());
    };
    await assert.rejects(pull(), (error) => isKind(error, "denied"));
    await assert.rejects(pull("user", "wrong"), (error) => {
      assert.ok(isKind(error, "denied"), String(error));
      assert.doesNotMatch(error.message, /wrong/);
      return true;
    });
    await pull("user", "se:cret/?");
    await at.engine.removeImage(reference, anySignal());
  });
});
