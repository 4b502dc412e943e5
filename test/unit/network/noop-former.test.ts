import assert from "node:assert/strict";
import { test } from "node:test";
import { NoopNetworkPlugin } from "../../../src/network/noop/noop-plugin.js";
import { recordingLog } from "../../fakes/recording-log.js";

const never = new AbortController().signal;
const pod = { namespace: "default", name: "web", sandboxId: "a".repeat(64), portMappings: [] };

test("no-op tears a pod down with the plugin that gave it a network, and other pods not at all", async () => {
  const tornDown: string[] = [];
  const plugin = new NoopNetworkPlugin({
    reason: "test",
    log: recordingLog(),
    former: {
      hasAttachment: (id) => Promise.resolve(id === pod.sandboxId),
      tearDownPod: ({ sandboxId }) => {
        tornDown.push(sandboxId);
        return Promise.resolve();
      },
    },
  });
  await plugin.tearDownPod(pod, never);
  await plugin.tearDownPod({ ...pod, sandboxId: "b".repeat(64) }, never);
  assert.deepEqual(tornDown, [pod.sandboxId]);
});
