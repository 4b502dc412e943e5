/** A real cri-dockerd, for engines with API 1.42 or later. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { connectCri } from "./cri-client.js";
import { dockerEndpoint } from "./docker.js";
import type { TestBed } from "./test-bed.js";
import { until } from "./wait.js";

/** Path of the program; empty without one. */
export const criDockerd = process.env["DOCKERSHIM_TEST_CRI_DOCKERD"] ?? "";

export interface CriServer {
  end(signal: "SIGTERM" | "SIGKILL"): Promise<unknown>;
}

/** It has no network plugin unless `flags` name one. */
export async function startCriDockerd(
  bed: TestBed,
  {
    socket,
    root,
    flags = [],
  }: { readonly socket: string; readonly root: string; readonly flags?: readonly string[] },
): Promise<CriServer> {
  const child = spawn(
    criDockerd,
    [
      ...["--container-runtime-endpoint", `unix://${socket}`, "--docker-endpoint", dockerEndpoint],
      ...["--cri-dockerd-root-directory", root, "--pod-infra-container-image", builtinPauseReference],
      ...["--network-plugin=", "--streaming-bind-addr=127.0.0.1:0", ...flags],
    ],
    { stdio: "ignore" },
  );
  const ended = once(child, "exit");
  bed.onClose(() => Promise.resolve(child.kill("SIGKILL")));
  using cri = connectCri(socket);
  await until("cri-dockerd", async () => {
    if (child.exitCode !== null) throw new Error(`cri-dockerd ended with ${child.exitCode}`);
    return cri.Version({}, { timeoutMs: 2_000 }).then(
      () => true,
      () => false,
    );
  });
  return {
    end: (signal) => {
      child.kill(signal);
      return ended;
    },
  };
}
