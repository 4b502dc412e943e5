/** The command line of `npm test`. */

export const usage = `Usage: npm test -- [FLAG...] [WORD...]

Installs and builds what is missing, sets up a Docker Engine where none answers, and runs all tests.
With words, only the test files whose path contains one of them, and none with the rest of a word like "!play".

  --unit                 only the tests that need no engine, and no set-up of one
  --long                 in full: larger counts, and every combination
  --no-setup             install no packages and start no engine; DOCKERSHIM_NO_SETUP=1 says the same
  --docker-endpoint URL  the engine for the tests, as unix:///run/docker.sock
  --test-...             passed on to the test runner of Node.js, as --test-name-pattern=PATTERN
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
  /** @type {string | undefined} */
  let endpoint;
  /** @type {string[]} */
  const runnerFlags = [];
  /** @type {string[]} */
  const words = [];
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index] ?? "";
    const [flag, ...values] = argument.split("=");
    if (flag === "--docker-endpoint") {
      endpoint = values.length > 0 ? values.join("=") : (argv[(index += 1)] ?? "");
      if (endpoint === "" || endpoint.startsWith("-")) throw new UsageError(`${flag} needs a value`);
    } else if (argument.startsWith("--test-")) {
      runnerFlags.push(argument);
    } else if (!argument.startsWith("-")) {
      words.push(argument);
    } else if (!["--unit", "--long", "--no-setup"].includes(argument)) {
      throw new UsageError(`unknown flag "${argument}"`);
    }
  }
  return { unit: argv.includes("--unit"), long: argv.includes("--long"), endpoint, runnerFlags, words };
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
