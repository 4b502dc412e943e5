import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { reopenContainerLog } from "../../../../src/shim/cri/container/reopen-container-log.js";
import { madeKeysLabel } from "../../../../src/domain/labels.js";
import type { ContainerLogs } from "../../../../src/shim/ports/container-logs.js";
import { runContainer, runSandbox } from "../../../fakes/pods.js";
import { TestShim } from "../../../fakes/services.js";

/** What the handler asks of the logs, where no container has a record. */
async function reopen(shim: TestShim, id: string): Promise<readonly string[]> {
  const calls: string[] = [];
  const used: Partial<ContainerLogs> = {
    ownerOf: () => undefined,
    convert: (snapshot, { directory, path }) => {
      calls.push(`convert ${snapshot.id} ${directory} ${path}`);
      return Promise.resolve();
    },
    reopen: (containerId) => {
      calls.push(`reopen ${containerId}`);
      return Promise.resolve();
    },
  };
  const services = { ...shim.services, logs: used as ContainerLogs };
  await reopenContainerLog({ container_id: id }, services, shim.call("ReopenContainerLog"));
  return calls;
}

describe("reopenContainerLog()", () => {
  test("never converts the log of a container of this program, also where it has no record", async () => {
    await using shim = await TestShim.start();
    const id = await runContainer(shim, await runSandbox(shim));
    assert.deepEqual(await reopen(shim, id), [`reopen ${id}`]);
  });

  test("converts the log of a container that dockershim or cri-dockerd made", async () => {
    await using shim = await TestShim.start();
    const sandbox = await runSandbox(shim);
    const own = shim.engine.containers.get(await runContainer(shim, sandbox));
    // They give the same labels but this one.
    const { [madeKeysLabel]: _keys, ...labels } = own.body.Labels;
    const name = own.name.replace(/_main_/, "_legacy_");
    const id = shim.engine.containers.create(name, { ...own.body, Labels: labels });
    shim.engine.containers.start(id);
    await shim.sync.refresh(id);
    const directory = "/var/log/pods/default_web_uid-1";
    assert.deepEqual(await reopen(shim, id), [`convert ${id} ${directory}/main ${directory}/main/0.log`]);
  });
});
