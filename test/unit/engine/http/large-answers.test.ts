/** Answers whose size tenants decide: labels, annotations, environments, histories. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  annotationPrefix,
  containerType,
  pinnedImageLabel,
  sandboxIdLabel,
  typeLabel,
} from "../../../../src/domain/labels.js";
import { descriptionLimitBytes } from "../../../../src/domain/snapshot.js";
import type { EngineEvent } from "../../../../src/shim/ports/engine.js";
import { toSnapshot } from "../../../../src/shim/engine/container-snapshot.js";
import { toImageSnapshot } from "../../../../src/shim/engine/image-snapshot.js";
import { json, startFakeDocker, version } from "../fake-docker.js";
import { fullContainer, fullImage } from "../full-answers.js";

const { signal } = new AbortController();
const id = (digit: string): string => digit.repeat(64);
const megabyte = 1024 * 1024;
/** JSON makes six bytes of each. */
const huge = (bytes: number): string => "\u0001".repeat(bytes / 6);
const podLabels = { [typeLabel]: containerType, [sandboxIdLabel]: id("5") };

const container = {
  ...fullContainer,
  Id: id("1"),
  SizeRw: 4096,
  State: { ...fullContainer.State, Pid: 7 },
  Config: { ...fullContainer.Config, Labels: podLabels },
};
/** Without `Env`, which is dropped. */
const imageConfig = {
  User: "5",
  StopSignal: "SIGINT",
  Volumes: { "/data": {} },
  Labels: { [typeLabel]: "x" },
};
const image = { ...fullImage, Config: imageConfig };

describe("containers with labels of any size", () => {
  test("listContainers() answers all of a list of more than 64 MiB, and keeps little of it", async () => {
    await using docker = await startFakeDocker();
    const entry = (number: number): object => ({
      Id: id("1").slice(3) + String(number).padStart(3, "0"),
      Names: ["/k8s_x"],
      State: "running",
      Labels: { [`${annotationPrefix}note`]: huge(1.5 * megabyte), ...podLabels },
    });
    docker.answers.set("GET /containers/json", (_request, response) => {
      response.writeHead(200);
      response.end(JSON.stringify(Array.from({ length: 50 }, (_, index) => entry(index))));
    });
    const engine = await docker.engine();
    const listed = await engine.listContainers({ labelKey: typeLabel }, signal);
    assert.equal(new Set(listed.map((one) => one.id)).size, 50);
    for (const { status, names, labels } of listed)
      assert.deepEqual({ status, names, labels }, { status: "running", names: ["k8s_x"], labels: podLabels });
  });

  test("listContainers() keeps the label that it was asked for, and those of helper containers", async () => {
    await using docker = await startFakeDocker();
    const Labels = { other: huge(megabyte), wanted: "x", [pinnedImageLabel]: "sha256:1" };
    docker.answers.set("GET /containers/json", json([{ Id: id("1"), Labels }]));
    const engine = await docker.engine();
    const [listed] = await engine.listContainers({ labelKey: "wanted" }, signal);
    assert.deepEqual(listed?.labels, { wanted: "x", [pinnedImageLabel]: "sha256:1" });
  });

  for (const [what, Config] of [
    ["labels", { Labels: { ...podLabels, [`${annotationPrefix}note`]: huge(5 * megabyte) } }],
    ["environment", { Labels: podLabels, Env: [`X=${"x".repeat(5 * megabyte)}`] }],
  ] as const) {
    test(`inspectContainer() with too large ${what} says all that is not of the tenant's size`, async () => {
      await using docker = await startFakeDocker();
      const answer = { ...container, Config: { ...container.Config, ...Config } };
      docker.answers.set(`GET /containers/${id("1")}/json`, json(answer));
      const engine = await docker.engine();
      const found = await engine.inspectContainer(id("1"), signal);
      assert.deepEqual(found, { ...toSnapshot(container), isTrimmed: true });
      assert.equal(await engine.writableLayerBytes(id("1"), signal), 4096);
    });
  }

  test("the essentials are all that a snapshot is made of", () => {
    const empty = toSnapshot({ Id: id("1") });
    const full = toSnapshot(container);
    for (const key of Object.keys(full) as (keyof typeof full)[])
      if (key !== "id") assert.notDeepEqual(full[key], empty[key], `the test's container has no ${key}`);
  });

  test("a sandbox with 256 KiB of annotations is described as a whole, whatever they consist of", async () => {
    await using docker = await startFakeDocker();
    const labels = { ...podLabels, [`${annotationPrefix}note`]: "\u0001".repeat(256 * 1024) };
    const answer = { ...container, Config: { ...container.Config, Labels: labels } };
    docker.answers.set(`GET /containers/${id("1")}/json`, json(answer));
    const engine = await docker.engine();
    assert.deepEqual(await engine.inspectContainer(id("1"), signal), toSnapshot(answer));
  });

  test("a too large answer that is not JSON fails for that container", async () => {
    await using docker = await startFakeDocker();
    const large = "x".repeat(descriptionLimitBytes + 1);
    docker.answers.set(`GET /containers/${id("1")}/json`, (_request, response) => response.end(large));
    const inspecting = (await docker.engine()).inspectContainer(id("1"), signal);
    const message = `inspect container "${id("1")}": the engine's answer is not JSON`;
    await assert.rejects(inspecting, { message });
  });

  test("inspectExec() of a command of megabytes", async () => {
    await using docker = await startFakeDocker();
    const ProcessConfig = { arguments: [huge(6 * megabyte)] };
    docker.answers.set("GET /exec/e/json", json({ Running: false, ExitCode: 3, ProcessConfig, Pid: 9 }));
    const engine = await docker.engine();
    assert.deepEqual(await engine.inspectExec("e", signal), { running: false, exitCode: 3, pid: 9 });
  });
});

describe("images with labels of any size", () => {
  test("listImages() lists all images, also when one of them has large labels", async () => {
    await using docker = await startFakeDocker();
    const large = { ...image, Labels: { x: huge(5 * megabyte) } };
    docker.answers.set("GET /images/json", json([large, { Id: "sha256:2", Size: 9 }]));
    const engine = await docker.engine();
    const [first, second] = await engine.listImages(signal);
    assert.deepEqual([first?.id, first?.repoTags, first?.size], ["sha256:x", ["a:1"], 7]);
    assert.deepEqual([second?.id, second?.size], ["sha256:2", 9]);
  });

  test("inspectImage() keeps all fields but the labels of a large image", async () => {
    await using docker = await startFakeDocker();
    const Config = { ...image.Config, Labels: { ...image.Config.Labels, x: huge(5 * megabyte) } };
    docker.answers.set("GET /images/x/json", json({ ...image, Config }));
    const engine = await docker.engine();
    assert.deepEqual(await engine.inspectImage("x", signal), toImageSnapshot(image));
  });

  test("a history beyond the limit is empty, and the other images count in the disk usage", async () => {
    await using docker = await startFakeDocker({
      "GET /version": json({ ...version, ApiVersion: "1.41" }),
      "GET /images/json": json([{ Id: "large" }, { Id: "small" }]),
    });
    const CreatedBy = huge(5 * megabyte);
    docker.answers.set("GET /images/large/history", json([{ Created: 1, CreatedBy, Size: 5 }]));
    docker.answers.set("GET /images/small/history", json([{ Created: 1, CreatedBy: "ADD", Size: 7 }]));
    const engine = await docker.engine();
    assert.deepEqual(await engine.imageHistory("large", signal), []);
    assert.equal(await engine.imageDiskUsage(signal), 7);
    await assert.rejects(engine.imageHistory("missing", signal), { kind: "notFound" });
  });

  test("imageDiskUsage() finds the sum in an answer beyond the limit", async () => {
    await using docker = await startFakeDocker();
    const Images = [{ Id: "x", Labels: { x: huge(5 * megabyte) } }];
    docker.answers.set("GET /system/df", json({ Images, LayersSize: 42 }));
    const engine = await docker.engine();
    assert.equal(await engine.imageDiskUsage(signal), 42);
  });
});

describe("events of any size", () => {
  const event = (type: string, action: string, eventId: string, attributes: object): string =>
    `${JSON.stringify({ Type: type, Action: action, Actor: { ID: eventId, Attributes: attributes } })}\n`;

  async function eventsOf(...pieces: readonly string[]): Promise<readonly EngineEvent[]> {
    await using docker = await startFakeDocker();
    docker.answers.set("GET /events", (_request, response) => {
      for (const piece of pieces) response.write(piece);
      response.end();
    });
    const engine = await docker.engine();
    const found: EngineEvent[] = [];
    const reading = (async () => {
      for await (const one of engine.events(typeLabel, () => undefined, signal)) found.push(one);
    })();
    await assert.rejects(reading, /broke/);
    return found;
  }

  test("an event of many MiB keeps its subject, and the next one follows", async () => {
    const attributes = { [`${annotationPrefix}note`]: huge(6 * megabyte), ...podLabels };
    const found = await eventsOf(
      event("container", "create", id("1"), attributes),
      event("container", "create", id("2"), { x: huge(2 * megabyte) }),
      event("image", "pull", "busybox", { x: huge(2 * megabyte) }),
      event("container", "start", id("3"), podLabels),
    );
    assert.deepEqual(found, [
      { type: "container", action: "create", id: id("1") },
      { type: "otherContainer", action: "create", id: id("2") },
      { type: "image", action: "pull", id: "busybox" },
      { type: "container", action: "start", id: id("3") },
    ]);
  });

  test("a label or name cannot fake an id", async () => {
    const hostile = `"},"Actor":{"ID":"${id("9")}"},"x":{"`;
    const attributes = { [hostile]: hostile, ID: id("9"), name: huge(megabyte), ...podLabels };
    const found = await eventsOf(event("container", "die", id("1"), attributes));
    assert.deepEqual(found, [{ type: "container", action: "die", id: id("1") }]);
  });

  for (const [what, line] of [
    ["is no JSON", "{x}\n"],
    ["is too large and no JSON", `${"x".repeat(2 * megabyte)}\n`],
    ["is too large and cut short", `{"Type":"container","x":"${"x".repeat(2 * megabyte)}\n`],
  ] as const) {
    test(`one that ${what} is an event of which nothing is known`, async () => {
      assert.deepEqual(await eventsOf(line, event("image", "tag", "a", {})), [
        { type: "unknown", action: "", id: "" },
        { type: "image", action: "tag", id: "a" },
      ]);
    });
  }
});
