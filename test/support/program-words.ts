/** How tests start the program. */
import { join } from "node:path";
import { isBuilt } from "../../scripts/setup/build.mjs";
import { builtMain, repositoryRoot } from "../../scripts/setup/paths.mjs";

let main: readonly string[] | undefined;

/**
 * The arguments of Node.js that start the program: the build, as bin/dockershim does, when it is that of the sources;
 * before it, what the test run has built for that.
 */
export function programArguments(): readonly string[] {
  const given = process.env["DOCKERSHIM_TEST_MAIN"] ?? "";
  if (given !== "") return [given];
  return (main ??= isBuilt(repositoryRoot)
    ? [builtMain]
    : ["--import", "tsx", join(repositoryRoot, "src", "main", "main.ts")]);
}

/** The words that start the program with `argv`, the first of them Node.js. */
export function programWords(argv: readonly string[] = []): readonly [string, ...string[]] {
  return [process.execPath, ...programArguments(), ...argv];
}
