import assert from "node:assert/strict";
import { appendFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { ShimError } from "../../../../src/shim/lib/errors.js";
import { ContainerState } from "../../../../src/shim/domain/cri.js";
import type { FollowDeps } from "../../../../src/play/view/follow.js";
import { followPods } from "../../../../src/play/view/follow.js";
import { playUp } from "../../../../src/play/play.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { type Fixture, makeFixture, podWith } from "../fake-cri.js";

const spec =
  "  restartPolicy: Never\n  containers: [{name: a, image: busybox:1}, {name: b, image: busybox:1}]";

interface Followed extends Fixture {
  readonly output: string[];
  readonly reports: string[];
  readonly log: (container: string, text: string) => Promise<void>;
  readonly follow: (
    onPoll: (count: number) => Promise<void>,
    signal?: AbortSignal,
  ) => ReturnType<typeof followPods>;
}

/** A pod that runs, whose polls of the CRI server are seen by `onPoll`, and real log files. */
async function withRunningPod(work: (followed: Followed) => Promise<void>): Promise<void> {
  await using temporary = await temporaryDirectory();
  const logs = temporary.path;
  const fixture = makeFixture();
  const manifest = await podWith(spec);
  await playUp([manifest], fixture.kubelet, fixture.deps, { keep: false }, new AbortController().signal);
  await fixture.kubelet[Symbol.asyncDispose]();
  fixture.reports.length = 0;
  const output: string[] = [];
  const deps: FollowDeps = {
    client: fixture.cri,
    files: fixture.files,
    directories: { ...fixture.deps.directories, logs },
    report: (line) => fixture.reports.push(line),
    output: (line) => output.push(line),
    pollMs: 1,
  };
  const log = async (container: string, text: string): Promise<void> => {
    const path = join(logs, "default_web_uid-1", container, "0.log");
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, text);
  };
  const list = fixture.cri.listPodSandboxes.bind(fixture.cri);
  const follow: Followed["follow"] = (onPoll, signal = new AbortController().signal) => {
    let count = 0;
    fixture.cri.listPodSandboxes = async (labels) => {
      await onPoll((count += 1));
      return list(labels);
    };
    return followPods(() => [manifest], deps, signal);
  };
  await work({ ...fixture, output, log, follow });
}

function end({ cri }: Fixture, name: string, exitCode: number): void {
  const container = cri.containers.find(({ config }) => config.metadata?.name === name);
  assert.ok(container);
  container.state = ContainerState.CONTAINER_EXITED;
  container.exitCode = exitCode;
}

test("followPods() prints the logs with the container's name and ends with the last container", () =>
  withRunningPod(async (followed) => {
    const { log, output, reports } = followed;
    const states = await followed.follow(async (count) => {
      if (count === 1) await log("a", '{"log":"one\\n","stream":"stdout"}\n');
      if (count === 2) await log("b", "2024-05-01T10:00:00Z stderr F two\n");
      if (count === 3) {
        await log("a", '{"log":"no line end","stream":"stdout"}\n');
        end(followed, "a", 0);
        end(followed, "b", 2);
        followed.files.texts.set("/state/uid-1/containers/b/termination-message-0", "last words\n");
      }
    });
    assert.deepEqual(states, ["Failed"]);
    assert.deepEqual(output, ["a: one", "b: two", "a: no line end"]);
    assert.deepEqual(reports, [
      "default/web: container a running",
      "default/web: container b running",
      "default/web: container a ended with exit code 0",
      "default/web: container b ended with exit code 2: last words",
    ]);
  }));

test("followPods() ends without a state when the user leaves, and stops nothing", () =>
  withRunningPod(async ({ follow, cri }) => {
    const controller = new AbortController();
    cri.calls.length = 0;
    const states = await follow((count) => {
      if (count === 2) controller.abort(new Error("interrupted"));
      return Promise.resolve();
    }, controller.signal);
    assert.equal(states, undefined);
    assert.deepEqual(cri.calls, []);
  }));

test("followPods() waits for an unavailable CRI server, and reports that once", () =>
  withRunningPod(async (followed) => {
    const states = await followed.follow((count) => {
      if (count === 2 || count === 3) throw new ShimError("unavailable", "no server");
      if (count === 5) for (const name of ["a", "b"]) end(followed, name, 0);
      return Promise.resolve();
    });
    assert.deepEqual(states, ["Succeeded"]);
    assert.deepEqual(followed.reports.slice(2, 4), [
      "the CRI server does not answer, retrying: no server",
      "the CRI server is back",
    ]);
  }));

test("followPods() ends when the pod is removed by another program", () =>
  withRunningPod(async ({ follow, cri }) => {
    const states = await follow((count) => {
      if (count === 2) cri.sandboxes.length = 0;
      return Promise.resolve();
    });
    assert.deepEqual(states, ["Absent"]);
  }));
