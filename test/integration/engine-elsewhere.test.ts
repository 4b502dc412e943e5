/** The life of a pod on an engine of which only a socket is shared, over each transport. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import {
  type EngineElsewhere,
  reasonForNoEngineElsewhere,
  startEngineElsewhere,
} from "../../scripts/setup/engine-elsewhere.mjs";
import { docker } from "../support/docker.js";
import { Pod } from "../support/pod.js";
import { ShimProcess } from "../support/shim-process.js";
import { openSpdy } from "../support/streaming-client.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";
import { temporaryDirectory } from "../unit/lib/temporary-directory.js";

const image = "dockershim.test/elsewhere:1";

describe(
  "an engine elsewhere",
  { skip: reasonForNoEngineElsewhere(), timeout: 240_000, concurrency: true },
  () => {
    let engine: EngineElsewhere;

    before(async () => {
      engine = await startEngineElsewhere();
      const body = await testImageArchive({ reference: image, marker: "elsewhere" });
      const { status } = await docker("POST", "/images/load?quiet=1", { body, socket: engine.socket });
      assert.equal(status, 200);
    });
    after(() => engine.close());

    for (const name of ["unix", "tcp", "ssh"] as const) {
      test(`over ${name}: a pod, exec, logs, statistics and port-forward`, async (context) => {
        const transport = engine[name];
        if ("reason" in transport) {
          context.skip(transport.reason);
          return;
        }
        await using directory = await temporaryDirectory();
        const { endpoint: dockerEndpoint, env: environment } = transport;
        await using shim = await ShimProcess.start({
          directory: directory.path,
          dockerEndpoint,
          environment,
        });
        const { cri } = shim;
        const pod = `pod-${randomBytes(4).toString("hex")}`;
        const source = {
          containerConfig: () => ({
            ...{ metadata: { name: "main", attempt: 0 }, image: { image }, log_path: "main.log" },
            command: ["sh", "-c", "echo hello from elsewhere; sleep 1000"],
          }),
        };
        await using running = await Pod.run(source, cri, {
          ...{ metadata: { name: pod, namespace: "elsewhere", uid: pod, attempt: 0 } },
          ...{ log_directory: join(directory.path, "logs"), linux: {} },
        });
        const id = await running.start();
        assert.equal((await running.exec(id, "echo", "by exec")).stdout, "by exec\n");
        await until("the log is a file of this host", async () =>
          (await readFile(join(directory.path, "logs", "main.log"), "utf8").catch(() => "")).includes(
            "elsewhere",
          ),
        );
        const { stats } = await cri.ContainerStats({ container_id: id });
        assert.ok(Number(stats?.memory?.working_set_bytes?.value ?? 0) > 0);

        const { url } = await cri.PortForward({ pod_sandbox_id: running.id, port: [7001] });
        const client = await openSpdy(url, ["portforward.k8s.io"]);
        const error = client.open({ streamtype: "error", port: "7001", requestid: "0" }, { fin: true });
        client.open({ streamtype: "data", port: "7001", requestid: "0" });
        // Nothing listens there, says the program in the pod.
        assert.match(await error.text(), /connect to port 7001 of .*: connection refused/);
        client.socket.destroy();

        const { info } = await cri.Status({ verbose: true });
        const { jobs } = JSON.parse(info["reach"] ?? "") as { jobs: Record<string, { reached: boolean }> };
        const reached = Object.entries(jobs).filter(([, job]) => job.reached);
        assert.deepEqual([reached, Object.keys(jobs).length], [[], 5]);
      });
    }
  },
);
