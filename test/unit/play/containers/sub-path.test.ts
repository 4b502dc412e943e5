import assert from "node:assert/strict";
import { mkdir, rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isKind } from "../../../../src/shim/lib/errors.js";
import { nodeFiles } from "../../../../src/play/containers/files.js";
import { Kubelet } from "../../../../src/play/kubelet/kubelet.js";
import { playUp } from "../../../../src/play/play.js";
import { safeSubPath } from "../../../../src/play/containers/sub-path.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { makeFixture, podWith, type Fixture } from "../fake-cri.js";

const { signal } = new AbortController();
const image = "image: busybox:1";
const whole = "volumeMounts: [{name: v, mountPath: /v}]";
const wholeReadOnly = "volumeMounts: [{name: v, mountPath: /v, readOnly: true}]";
const part = (subPath: string): string => `volumeMounts: [{name: v, mountPath: /v, subPath: ${subPath}}]`;
const container = (name: string, mounts: string): string => `{name: ${name}, ${image}, ${mounts}}`;

async function up(fixture: Fixture, spec: string, volume = "emptyDir: {}"): Promise<void> {
  const manifest = await podWith(`${spec}\n  volumes: [{name: v, ${volume}}]`);
  await using kubelet = new Kubelet(fixture.deps);
  await playUp([manifest], kubelet, fixture.deps, { keep: false }, signal);
}

describe("a subPath of a volume", () => {
  for (const volume of ["emptyDir: {}", "hostPath: {path: /srv}"]) {
    test(`is refused while a container runs that may write to its volume (${volume})`, async () => {
      const fixture = makeFixture();
      const spec = `  containers: [${container("a", whole)}, ${container("b", part("s"))}]`;
      await assert.rejects(
        up(fixture, spec, volume),
        /create container "b": mount subPath "s" of ".*": container "a" runs and may write to ".*", so/,
      );
      assert.ok(!fixture.cri.calls.includes("createContainer b"));
    });
  }

  test("is refused while a container of another pod may write to its volume", async () => {
    const fixture = makeFixture();
    await fixture.cri.createContainer("another sandbox", {
      metadata: { name: "other" },
      mounts: [{ host_path: "/srv", container_path: "/data" }],
    });
    await fixture.cri.startContainer("container other 0 of another sandbox");
    const spec = `  containers: [${container("a", part("s"))}]`;
    await assert.rejects(up(fixture, spec, "hostPath: {path: /srv}"), /container "other" runs and may write/);
  });

  for (const [what, spec] of [
    ["it is started first", [container("a", part("s")), container("b", whole)]],
    ["others only read the volume", [container("a", wholeReadOnly), container("b", part("s"))]],
    ["others have other parts of it", [container("a", part("r")), container("b", part("s"))]],
    ["others have the same part", [container("a", part("s")), container("b", part("s"))]],
  ] as const) {
    test(`is mounted when ${what}`, async () => {
      const fixture = makeFixture();
      await up(fixture, `  containers: [${spec.join()}]`);
      assert.ok(fixture.cri.calls.includes("startContainer b"));
    });
  }

  test("is mounted when an init container that has ended had the whole volume", async () => {
    const fixture = makeFixture();
    fixture.cri.exits.set("init", 0);
    const init = `  initContainers: [${container("init", whole)}]`;
    await up(fixture, `${init}\n  containers: [${container("a", part("s"))}]`);
    assert.ok(fixture.cri.calls.includes("startContainer a"));
  });
});

describe("safeSubPath()", () => {
  test("refuses what leads elsewhere when it is looked at again", async () => {
    await using temporary = await temporaryDirectory();
    const directory = temporary.path;
    await mkdir(join(directory, "one"));
    await mkdir(join(directory, "two"));
    await symlink("one", join(directory, "link"));
    const { cri } = makeFixture();
    const client = {
      containerStatus: cri.containerStatus.bind(cri),
      listContainers: async () => {
        // Between the first look and the second one.
        await symlink("two", join(directory, "new"));
        await rename(join(directory, "new"), join(directory, "link"));
        return [];
      },
    };
    await assert.rejects(
      safeSubPath({ volumePath: directory, subPath: "link" }, { client, files: nodeFiles }, signal),
      (error) =>
        isKind(error, "precondition") && /the path was replaced during the check/.test(error.message),
    );
  });
});
