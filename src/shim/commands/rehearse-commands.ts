/** `dockershim migrate rehearse RECORDING` as commander sees it. */
import { type Command, Option } from "commander";
import { ShimError } from "../lib/errors.js";
import type { CommandParts } from "./command-parts.js";
import { sayExitCodes } from "./exit-codes.js";

export interface RehearseOptions {
  readonly recording: string;
  readonly as: "dockershim" | "cri-dockerd";
  readonly dockerEndpoint?: string;
  /** Path of a cri-dockerd to ask in the end. */
  readonly criDockerd?: string;
  readonly anyway: boolean;
  readonly format: "page" | "json";
}

interface GivenFlags {
  readonly as: "dockershim" | "cri-dockerd";
  readonly output: "page" | "json";
  readonly dockerEndpoint?: string;
  readonly criDockerd?: string;
  readonly anyway?: boolean;
}

export interface RehearseActions {
  rehearse(options: RehearseOptions): Promise<number>;
}

export function addRehearseCommand(migrate: Command, actions: RehearseActions, parts: CommandParts): void {
  const summary = "rehearse the way there and back on a scratch host, with the pods of a recording";
  const command = parts.addCommand("rehearse", summary, { parent: migrate }).allowExcessArguments();
  sayExitCodes(command, "no findings", "findings");
  command
    .usage("[flags] RECORDING")
    .addOption(
      new Option(
        "--as <program>",
        "as whose the pods are made: the dockershim inside the kubelet, or cri-dockerd",
      )
        .choices(["dockershim", "cri-dockerd"])
        .default("dockershim"),
    )
    .option(
      "--docker-endpoint <endpoint>",
      "engine of the scratch host (default: unix:///var/run/docker.sock)",
    )
    .option("--cri-dockerd <path>", "a cri-dockerd, which is started in the end and asked for the pods")
    .option("--anyway", "rehearse although the engine has pods")
    .addOption(new Option("-o, --output <format>", "page or json").choices(["page", "json"]).default("page"))
    .action(async ({ output, ...given }: GivenFlags) => {
      parts.refuseServeFlags("migrate");
      const [recording, ...rest] = command.args;
      if (recording === undefined || rest.length > 0) {
        throw new ShimError("invalid", 'command "migrate rehearse": name one recording');
      }
      const anyway = given.anyway === true;
      parts.ended(await actions.rehearse({ ...given, recording, anyway, format: output }));
    });
}
