/** `dockershim migrate rehearse RECORDING` as commander sees it. */
import { type Command, Option } from "commander";
import { type NetworkPluginName, networkPlugins } from "../rehearse/network-plugins.js";
import { options as table } from "../../shim/config/options.js";
import { ShimError } from "../../lib/errors.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { pageOrJson } from "../../cli/flag-values.js";

interface GivenFlags {
  readonly as?: "dockershim" | "cri-dockerd";
  readonly networkPlugin: "auto" | NetworkPluginName;
  readonly cniConfDir?: string;
  readonly cniBinDir: string;
  readonly output: "page" | "json";
  readonly dockerEndpoint?: string;
  readonly criDockerd?: string;
  readonly anyway?: boolean;
}

export function addRehearseCommand(migrate: Command, parts: CommandParts): void {
  const summary = "rehearse the way there and back on a scratch host, with the pods of a recording";
  const command = parts.addCommand("rehearse", summary, { parent: migrate }).allowExcessArguments();
  command
    .usage("[flags] RECORDING")
    .addOption(
      new Option(
        "--as <program>",
        "the runtime to imitate: the dockershim inside the kubelet, or cri-dockerd (default: the recorded one)",
      ).choices(["dockershim", "cri-dockerd"]),
    )
    .option(
      "--docker-endpoint <endpoint>",
      "engine of the scratch host (default: unix:///var/run/docker.sock)",
    )
    .addOption(
      new Option(
        "--network-plugin <name>",
        "network of the pods; auto: cni where its plugins are installed, else no-op",
      )
        .choices(["auto", ...networkPlugins])
        .default("auto"),
    )
    .option("--cni-conf-dir <path>", "network list for cni (default: an example of its own)")
    .option("--cni-bin-dir <paths>", "CNI plugins, separated by commas", table.cniBinDirs.default)
    .option(
      "--cri-dockerd <path>",
      "a cri-dockerd, which is started for the way back, asked for the pods, and removes some",
    )
    .option("--anyway", "rehearse although the engine has pods")
    .addOption(pageOrJson())
    .action(async ({ output, cniBinDir, ...given }: GivenFlags) => {
      parts.refuseServeFlags("migrate");
      const [recording, ...rest] = command.args;
      if (recording === undefined || rest.length > 0)
        throw new ShimError("invalid", 'command "migrate rehearse": name one recording');
      const anyway = given.anyway === true;
      const cniBinDirs = cniBinDir.split(",").filter((path) => path !== "");
      const options = { ...given, cniBinDirs, recording, anyway, format: output };
      await parts.run(() => import("./rehearse-command.js"), "runRehearse", options);
    });
}
