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

/** What the test run has built of a module of the sources or tests, or the module itself. `path`: from the root. */
export function modulePath(path: string): string {
  const built = process.env["DOCKERSHIM_TEST_MODULES"] ?? "";
  return built === "" ? join(repositoryRoot, path) : join(built, path.replace(/\.ts$/, ".js"));
}

/** The words that start Node.js with a module of `modulePath`, or with the text of one that imports some. */
export function moduleWords(...words: readonly string[]): readonly [string, ...string[]] {
  const isBuiltByRun = (process.env["DOCKERSHIM_TEST_MODULES"] ?? "") !== "";
  return [process.execPath, ...(isBuiltByRun ? [] : ["--import", "tsx"]), ...words];
}

/** The words that start the program with `argv`, the first of them Node.js. */
export function programWords(argv: readonly string[] = []): readonly [string, ...string[]] {
  return [process.execPath, ...programArguments(), ...argv];
}
