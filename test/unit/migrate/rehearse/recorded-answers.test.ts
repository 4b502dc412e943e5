import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { compareRecorded } from "../../../../src/migrate/rehearse/recorded-answers.js";
import type { LastAnswers } from "../../../../src/migrate/rehearse/recorded-pods.js";
import type { MadePod } from "../../../../src/migrate/rehearse/scratch-pods.js";
import type { Statuses } from "../../../../src/migrate/rehearse/statuses.js";
import { idOf } from "../../../fakes/snapshots.js";
import { containerConfig, podConfig } from "../../plan/builders.js";

const [recordedPod, recordedContainer, pod, container] = [idOf("1"), idOf("2"), idOf("a"), idOf("b")];
const labels = { app: "web" };
const metadata = { name: "web", namespace: "default", uid: "uid-1", attempt: 0 };

const podStatus = (id: string) => ({
  ...{ id, metadata, labels, state: 0, created_at: "5", network: { ip: "10.0.0.2" } },
});
const containerStatus = (id: string) => ({
  ...{ id, metadata: { name: "c1", attempt: 3 }, labels, state: 1, created_at: "6", started_at: "7" },
  ...{ image: { image: "nginx" }, image_ref: "nginx@sha256:1", log_path: "/var/log/pods/web/c1/3.log" },
});
const entry = (id: string) => ({
  ...{ id, pod_sandbox_id: recordedPod, metadata: { name: "c1", attempt: 3 }, labels, state: 1 },
});

function compare(
  ofContainer: LastAnswers,
  now: { readonly status?: object; readonly listed?: object } = {},
  ofPod: LastAnswers = { status: { status: podStatus(recordedPod) } },
) {
  const made: MadePod = {
    id: pod,
    recorded: {
      ...{ id: recordedPod, answers: ofPod, containers: [] },
      config: podConfig({ metadata, labels }),
    },
    containers: [
      {
        id: container,
        recorded: {
          ...{ id: recordedContainer, answers: ofContainer, started: true },
          config: containerConfig({ metadata: { name: "c1", attempt: 3 }, labels }),
        },
      },
    ],
  };
  const found = {
    ...containerStatus(container),
    ...{ created_at: "8", started_at: "9", image: { image: "pause" }, image_ref: "pause" },
    ...now.status,
  };
  const status = { ...podStatus(pod), created_at: "9", network: { ip: "172.17.0.2" } };
  const statuses = {
    pods: new Map([[pod, { subject: "", answer: { status } }]]),
    containers: new Map([[container, { subject: "", answer: { status: found } }]]),
    listedPods: new Map(),
    listedContainers: new Map([[container, { ...entry(container), pod_sandbox_id: pod, ...now.listed }]]),
  } as unknown as Statuses;
  return compareRecorded([made], statuses, "cri-dockerd");
}

describe("compareRecorded()", () => {
  const answers = {
    status: { status: containerStatus(recordedContainer) },
    listed: entry(recordedContainer),
  };

  test("expects other ids, times, addresses and images, and compares all that was recorded", () => {
    assert.deepEqual(compare(answers), { compared: 3, ended: 0, problems: [] });
    assert.equal(compare({}).compared, 1);
  });

  for (const [what, now, text] of [
    [
      "another attempt",
      { status: { metadata: { name: "c1", attempt: 4 } } },
      /^ContainerStatus: status\.metadata\.attempt is 4, was 3 on the recorded node/,
    ],
    ["another log file", { status: { log_path: "/x" } }, /status\.log_path is "\/x"/],
    ["a start that is missing", { status: { started_at: "0" } }, /status\.started_at/],
    [
      "another sandbox",
      { listed: { pod_sandbox_id: idOf("f") } },
      /^ListContainers: .*pod_sandbox_id is "f0+", was "a0+"/,
    ],
    ["a label that is lost", { listed: { labels: {} } }, /labels\[app\] is null, was "web"/],
  ] as const) {
    test(`finds ${what}`, () => {
      const { problems } = compare(answers, now);
      assert.equal(problems.length, 1, JSON.stringify(problems));
      assert.equal(problems[0]?.subject, "container default/web/c1");
      assert.match(problems[0].text, text);
    });
  }

  test("expects no labels of images, neither recorded nor here", () => {
    const withLabel = { ...entry(recordedContainer), labels: { ...labels, maintainer: "a" } };
    const here = { listed: { labels: { ...labels, "dockershim.rehearsal": "/tmp/x" } } };
    assert.deepEqual(compare({ listed: withLabel }, here).problems, []);
  });

  test("does not find what the programs differ in on purpose", () => {
    // cri-dockerd has no such field.
    assert.deepEqual(compare(answers, { status: { stop_signal: 15 } }).problems, []);
  });

  test("counts containers that had ended, and does not compare them", () => {
    const exited = { status: { status: { ...containerStatus(recordedContainer), state: 2, exit_code: 1 } } };
    const { ended, problems } = compare(exited);
    assert.deepEqual([ended, problems], [1, []]);
  });
});
