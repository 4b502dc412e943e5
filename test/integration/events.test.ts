/** GetContainerEvents, the streamed lists and CheckpointContainer with a real engine. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { status, type ServiceError } from "@grpc/grpc-js";
import type { ContainerEventResponse } from "../../src/domain/cri.js";
import { connectClient, type TestClient } from "../unit/grpc/test-server.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const names = ["CREATED", "STARTED", "STOPPED", "DELETED"];

describe("events and streams", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let shim: ShimProcess;
  let client: TestClient;
  before(() => {
    ({ shim } = bed);
    client = connectClient(shim.socket);
  });
  after(() => client[Symbol.dispose]());

  test("each client of GetContainerEvents hears a pod's life in order, with the whole pod in each event", async () => {
    const clients = [1, 2].map(() => {
      const events: ContainerEventResponse[] = [];
      const stream = client.stream("GetContainerEvents", {});
      stream.on("error", () => undefined);
      stream.on("data", (event: unknown) => events.push(event as ContainerEventResponse));
      return { events, stop: () => stream.cancel() };
    });
    // Served after the streams, which came first on the same connection.
    await client.call("Status", {});
    const pod = await bed.runPod(shim.cri);
    const { ip } = (await pod.status()).network ?? { ip: "" };
    const id = await pod.start({ command: ["sh", "-c", "exit 7"] });
    await pod.untilExited(id);
    await pod.remove();
    for (const { events, stop } of clients) {
      const own = () => events.filter(({ pod_sandbox_status: status }) => status?.id === pod.id);
      const texts = () =>
        own().map(
          (event) =>
            `${names[event.container_event_type] ?? ""} ${event.container_id === id ? "container" : "sandbox"}`,
        );
      await until("the sandbox is told to be gone", () => texts().includes("DELETED sandbox"));
      stop();
      assert.deepEqual(texts(), [
        ...["CREATED sandbox", "STARTED sandbox"],
        ...["CREATED container", "STARTED container", "STOPPED container"],
        ...["STOPPED sandbox", "DELETED container", "DELETED sandbox"],
      ]);
      assert.equal(own()[1]?.pod_sandbox_status?.network?.ip, ip);
      assert.deepEqual(
        own().map(({ containers_statuses: statuses }) => statuses.map((status) => status.id)),
        [[], [], [id], [id], [id], [id], [], []],
      );
      assert.equal(own()[4]?.containers_statuses[0]?.exit_code, 7);
      const times = own().map(({ created_at }) => BigInt(created_at));
      assert.ok(times.every((time, index) => index === 0 || time > (times[index - 1] ?? 0n)));
    }
  });

  test("a container that a killed server has left frozen runs on after the next start", async (t) => {
    const directory = await bed.newDirectory();
    const [marker, location] = [join(directory, "frozen"), join(directory, "checkpoint.tar")];
    // Freezes as CRIU does, and takes for ever.
    const runc = `#!/bin/sh
PATH=\${PATH#*:}
case " $* " in *" checkpoint "*)
  for id; do :; done
  runc "$1" "$2" pause "$id" && touch ${marker} && exec sleep 1000;;
esac
exec runc "$@"
`;
    await writeFile(join(directory, "runc"), runc, { mode: 0o755 });
    const environment = { PATH: `${directory}:${process.env["PATH"] ?? ""}` };
    const options = { directory: await bed.newDirectory(), environment };
    const first = await bed.startShim(options);
    const pod = await bed.runPod(first.cri);
    const id = await pod.start();
    const failure = first.cri.CheckpointContainer({ container_id: id, location, timeout: "60" }).then(
      () => undefined,
      (error: unknown) => error as ServiceError,
    );
    const frozen = until("the container to be frozen", () => existsSync(marker)).then(() => undefined);
    if ((await Promise.race([failure, frozen]))?.code === status.UNIMPLEMENTED) {
      t.skip("the engine's OCI runtime is out of reach");
      return;
    }
    await frozen;
    await first.kill();
    const second = await bed.startShim(options);
    await until("the checkpoint to be ended", () =>
      second.log.includes("ended the checkpoint of a killed process"),
    );
    await using again = pod.through(second.cri);
    assert.equal(await again.shell(id, "echo runs"), "runs");
    assert.deepEqual(await readdir(directory), ["frozen", "runc"]);
  });
});
