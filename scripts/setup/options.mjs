/** The few words of the command line that the scripts themselves look at; all else is the shim's. */

/**
 * Whether packages may be installed and an engine may be started. `npm start --no-setup`, without the `--` before it,
 * is taken for a setting of npm, which hands it on as an empty npm_config_setup: meant as it was written.
 * @param {readonly string[]} argv
 * @param {NodeJS.ProcessEnv} env
 */
export function setupAllowed(argv, env) {
  const forbidden = (env["DOCKERSHIM_NO_SETUP"] ?? "").toLowerCase();
  if (argv.includes("--no-setup") || ["", "false"].includes(env["npm_config_setup"] ?? "unset")) return false;
  return ["", "0", "false", "no"].includes(forbidden);
}

/**
 * The arguments without `--no-setup`, which the shim does not know.
 * @param {readonly string[]} argv
 */
export function shimArguments(argv) {
  return argv.filter((argument) => argument !== "--no-setup");
}

/**
 * Whether these arguments start the server, so that an engine is wanted; `--help`, `config` and the like need none.
 * @param {readonly string[]} argv
 */
export function startsServer(argv) {
  if (argv.some((argument) => ["-h", "--help", "--version", "--buildinfo"].includes(argument))) return false;
  const command = argv[0];
  return command === undefined || command.startsWith("-") || command === "serve";
}
