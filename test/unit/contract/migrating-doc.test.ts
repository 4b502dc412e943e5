/** What docs/migrate/migrating.md quotes of `dockershim checkpoint` is what the command prints. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  convertedPage,
  listedPage,
  repairedPage,
  verifiedPage,
} from "../../../checkpoints/cli/checkpoint-pages.js";
import type {
  CheckpointPortMapping,
  PodSandboxCheckpoint,
} from "../../../src/shim/ports/checkpoint-store.js";

const text = readFileSync(new URL("../../../docs/migrate/migrating.md", import.meta.url), "utf8");

const web = "222ff7b2e36eea84c57075f05b0bc06b637291fceb8b2ae63387ebb6898987be";
const dockershim = "/var/lib/dockershim/sandbox";
const criDockerd = "/var/lib/cri-dockerd/sandbox";
const port: CheckpointPortMapping = { protocol: "tcp", containerPort: 80, hostPort: 8080 };

function checkpointOf(
  name: string,
  portMappings: readonly CheckpointPortMapping[] = [],
): PodSandboxCheckpoint {
  return { version: "v1", namespace: "default", name, data: { portMappings } };
}

function intact(directory: string, id: string, checkpoint: PodSandboxCheckpoint) {
  const flavour = directory === dockershim ? ("dockershim" as const) : ("criDockerd" as const);
  return { directory, id: id.padEnd(64, "0"), path: `${directory}/${id}`, checkpoint, flavour };
}

const bad = { directory: "/var/tmp/sb", id: web, path: `/var/tmp/sb/${web}` };
const reason = "checksum 928727533 is not that of the content";

const pages: Readonly<Record<string, string>> = {
  ls: listedPage({
    intact: [
      intact(dockershim, "222ff7b2e36e", checkpointOf("web-node-1", [port])),
      intact(criDockerd, "bac1a720c77d", checkpointOf("db-node-1")),
      intact(criDockerd, "dc3b05cd4d12", checkpointOf("agent-node-1")),
    ],
    corrupt: [],
  }),
  convert: convertedPage(
    [
      {
        id: web,
        from: `${dockershim}/${web}`,
        to: `${criDockerd}/${web}`,
        flavour: "dockershim",
        written: true,
      },
    ],
    "cri-dockerd",
  ),
  verify: verifiedPage({ intact: [], corrupt: [{ ...bad, reason, content: checkpointOf("wab-node-1") }] }),
  repair: repairedPage(
    [
      {
        ...{
          id: web,
          path: bad.path,
          problem: reason,
          source: "engine",
          checkpoint: checkpointOf("web-node-1"),
        },
        note: "host ports are unknown: they were given to the network plugin alone",
        quarantined: `/var/tmp/quarantine/sandbox-${web}-2edfc23708c9ed81`,
      },
    ],
    { dryRun: false },
  ),
};

for (const [verb, page] of Object.entries(pages)) {
  test(`docs/migrate/migrating.md shows checkpoint ${verb} as it is printed`, () => {
    const shown = text.includes(page);
    assert.ok(shown, `not in the document:\n${page}`);
  });
}
