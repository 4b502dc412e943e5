/** The command line of `npm test`. */
import { parseArgs } from "node:util";

export const usage = `Usage: npm test -- [FLAG...] [WORD...]

Installs and builds what is missing, sets up a Docker Engine where none answers, and runs all tests.
With words, only the test files whose path contains one of them, and none with the rest of a word like "!play".

  --unit                 only the tests that need no engine, and no set-up of one
  --long                 in full: larger counts, and every combination
  --no-setup             install no packages and start no engine; DOCKERSHIM_NO_SETUP=1 says the same
  --docker-endpoint URL  the engine for the tests, as unix:///run/docker.sock
  --test-...             passed on to Node.js, as --test-name-pattern=PATTERN
  -h, --help             print this

Exit code: 0 something ran and nothing failed, 1 otherwise, 2 this command line was not understood.
`;

/** What was asked for cannot be understood; the message says which part of it. */
export class UsageError extends Error {}

/**
 * Throws UsageError.
 * @param {readonly string[]} argv
 * @returns {"help" | { unit: boolean, long: boolean, endpoint: string | undefined, runnerFlags: string[], words: string[] }}
 *   `endpoint`: the last one that is named
 */
export function testOptions(argv) {
  if (argv.includes("--help") || argv.includes("-h")) return "help";
  const isOfRunner = (/** @type {string} */ argument) => argument.startsWith("--test-");
  try {
    const { values, positionals } = parseArgs({
      args: argv.filter((argument) => !isOfRunner(argument)),
      options: {
        unit: { type: "boolean", default: false },
        long: { type: "boolean", default: false },
        "no-setup": { type: "boolean" },
        "docker-endpoint": { type: "string" },
      },
      allowPositionals: true,
    });
    const { unit = false, long = false, "docker-endpoint": endpoint } = values;
    if (endpoint === "") throw new Error("--docker-endpoint needs a value");
    return { unit, long, endpoint, runnerFlags: argv.filter(isOfRunner), words: positionals };
  } catch (error) {
    throw new UsageError(/** @type {Error} */ (error).message);
  }
}

/**
 * Whether the path of a test file is one that the words ask for.
 * @param {string} path
 * @param {readonly string[]} words
 */
export function isAsked(path, words) {
  const wanted = words.filter((word) => !word.startsWith("!"));
  const isUnwanted = words.some((word) => word.startsWith("!") && path.includes(word.slice(1)));
  return !isUnwanted && (wanted.length === 0 || wanted.some((word) => path.includes(word)));
}
