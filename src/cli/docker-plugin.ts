/** The program as a plugin of Docker's CLI: `docker pod ps`, `docker pod play FILE…`. */
import type { Command } from "commander";
import { ShimError } from "../lib/errors.js";

/** The first argument by which bin/dockershim says that it was called by the name docker-pod. */
const pluginWord = "docker-cli-plugin";
/** The first argument by which Docker's CLI asks every plugin what it is. */
const metadataWord = "docker-cli-plugin-metadata";

/** What the command line of a plugin asks for; undefined for one of dockershim. */
export type PluginCall =
  | { readonly kind: "metadata" }
  /** `pod ps …`, for a program that `asDockerPlugin` has changed. */
  | { readonly kind: "run"; readonly argv: readonly string[] };

export function readPluginCall(argv: readonly string[]): PluginCall | undefined {
  const [first, ...rest] = argv;
  if (first === metadataWord) return { kind: "metadata" };
  if (first !== pluginWord) return undefined;
  const [command, subject] = rest;
  if (command === metadataWord) return { kind: "metadata" };
  // Docker's CLI passes all of its own arguments on, also flags of its own before the name of the plugin.
  if (command === "pod") return { kind: "run", argv: rest };
  if (command === "help" && subject === "pod") return { kind: "run", argv: ["pod", "--help"] };
  if (command?.startsWith("-") === true)
    throw new ShimError(
      "invalid",
      `flag "${command}" of docker: has no meaning for pods, which are made through a CRI server; use --endpoint after "docker pod COMMAND"`,
    );
  throw new ShimError("invalid", 'docker-pod is a plugin of the Docker CLI: use "docker pod"');
}

/** For texts with commands to type: as a plugin these are `docker pod ps` and `docker pod play`. */
export function commandNames([first]: readonly string[]): (text: string) => string {
  if (first !== pluginWord) return (text) => text;
  return (text) =>
    text
      .replaceAll(/\bdockershim play\b/g, "docker pod play")
      .replaceAll(/\bdockershim pod\b/g, "docker pod");
}

/** The answer that Docker's CLI wants, of version 0.1.0 of its protocol. */
export function pluginMetadata(version: string): string {
  return `${JSON.stringify({
    SchemaVersion: "0.1.0",
    Vendor: "dockershim",
    Version: version,
    ShortDescription: "Run and inspect Kubernetes pods",
  })}\n`;
}

/** Puts `play` beside the commands of `pod`, and names the program `docker`, as the help is to show. */
export function asDockerPlugin(program: Command): void {
  const find = (name: string): Command | undefined => program.commands.find((each) => each.name() === name);
  const pod = find("pod");
  const play = find("play");
  if (pod === undefined || play === undefined) throw new ShimError("internal", "pod or play is not declared");
  program.name("docker");
  pod.usage(`play|${pod.usage()}`).addCommand(play);
}
