import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { HostPortClaims } from "../../../src/network/hostport/host-port-claims.js";
import { hostPortOwners } from "../../../src/shim/recovery/network-owners.js";
import { PodRecords, type PodRecord } from "../../../src/shim/state/pod-records.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { MemoryCheckpoints } from "../../fakes/memory-checkpoints.js";
import { podRecord } from "../../fakes/pod-record.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { rejectsWith } from "../../support/refusals.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = new AbortController().signal;

interface Pod {
  readonly runs: boolean;
  readonly record?: PodRecord["network"]["state"];
  readonly checkpoint?: boolean;
  readonly hostNetwork?: true;
}

/** Pods by name: what is noted of them, and whether their container runs. */
async function setUp(path: string, pods: Readonly<Record<string, Pod>>) {
  const engine = new FakeEngine();
  engine.images.add({ tags: ["pause"] });
  const checkpoints = new MemoryCheckpoints();
  const podRecords = await PodRecords.open(path, recordingLog());
  let hostPort = 8000;
  for (const [name, { runs, record: state, checkpoint = true, hostNetwork }] of Object.entries(pods)) {
    const id = engine.containers.create(name, { Image: "pause", Labels: {}, HostConfig: {} });
    if (runs) engine.containers.start(id);
    if (state !== undefined) {
      const network = { plugin: "kubenet", state, ips: ["10.1.0.2"] };
      await podRecords.put(podRecord({ sandboxId: id, name, phase: "ready", network }));
    }
    hostPort += 1;
    const portMappings = [{ protocol: "tcp", containerPort: 80, hostPort }] as const;
    const data = { portMappings, ...(hostNetwork === undefined ? {} : { hostNetwork }) };
    if (checkpoint) await checkpoints.put(id, { version: "v1", name, namespace: "default", data });
  }
  const owners = () => hostPortOwners({ pods: podRecords, checkpoints }, engine, never);
  return { engine, owners };
}

describe("hostPortOwners()", () => {
  test("are the pods of our records that have a network, with the mappings of their checkpoints", async () => {
    await using at = await temporaryDirectory();
    const { engine, owners } = await setUp(at.path, {
      ready: { runs: true, record: "ready" },
      settingUp: { runs: true, record: "settingUp" },
      tornDown: { runs: true, record: "tornDown" },
      host: { runs: true, record: "none" },
    });
    const found = await owners();
    assert.deepEqual(found.map(({ name }) => name).sort(), ["ready", "settingUp"]);
    assert.equal(found.find(({ name }) => name === "ready")?.portMappings[0]?.hostPort, 8001);
    assert.deepEqual(
      engine.journal.names("engine.listContainers"),
      [],
      "nothing is asked when all is recorded",
    );
  });

  test("are pods of dockershim and cri-dockerd, too, of which there is a checkpoint only, while they run", async () => {
    await using at = await temporaryDirectory();
    const { owners } = await setUp(at.path, {
      running: { runs: true },
      ended: { runs: false },
      host: { runs: true, hostNetwork: true },
      foreign: { runs: true, checkpoint: false },
    });
    const found = (await owners()).map(({ name }) => name);
    assert.deepEqual(found, ["running"]);
    const port = { protocol: "tcp", containerPort: 1, hostPort: 8001, hostIp: "" } as const;
    const wanted = { sandboxId: "new", namespace: "kube", name: "new", portMappings: [port] };
    const taken = /host port 8001\/tcp for pod "new_kube": taken by pod "running_default"/;
    await rejectsWith(new HostPortClaims(owners).claim(wanted, never), "conflict", taken);
  });
});
