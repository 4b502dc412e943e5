#!/usr/bin/env node
/**
 * `node scripts/test-elsewhere.mjs [--transport unix|tcp|ssh]... [FILE...]`: runs integration tests with an engine of
 * which only a socket is shared, once for each transport, and prints a table and the names of skipped tests. Without
 * files: all that use the engine of the run. Files with an engine of their own are left out. Needs root and what
 * `npm test` needs for its own engines.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { findBusybox } from "./setup/busybox.mjs";
import {
  elsewhereVariable,
  reasonForNoEngineElsewhere,
  startEngineElsewhere,
} from "./setup/engine-elsewhere.mjs";
import { kindOf } from "./setup/integration-tests.mjs";
import { cacheDirectory, repositoryRoot } from "./setup/paths.mjs";

const fileLimitMs = 600_000;
const folder = join(repositoryRoot, "test", "integration");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { transport: { type: "string", multiple: true, default: ["unix", "tcp", "ssh"] } },
});

/**
 * @param {string} file
 * @param {Readonly<Record<string, string>>} environment
 */
async function runFile(file, environment) {
  const words = ["--import", "tsx", "--test", "--test-reporter=tap", file];
  const child = spawn(process.execPath, words, {
    cwd: repositoryRoot,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
    timeout: fileLimitMs,
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part) => (text += part));
  const [code] = await once(child, "close");
  const count = (/** @type {string} */ what) =>
    Number(new RegExp(`^# ${what} (\\d+)`, "m").exec(text)?.[1] ?? 0);
  const skipped = [...text.matchAll(/^ *ok \d+ - (.*) # SKIP (.*)$/gm)].map(
    ([, test, why]) => `${test}: ${why}`,
  );
  const counts = { pass: count("pass"), fail: count("fail") + count("cancelled"), skipped };
  if (code !== 0) process.stdout.write(text);
  return { ...counts, fail: code !== 0 && counts.fail === 0 ? 1 : counts.fail };
}

const reason = reasonForNoEngineElsewhere();
if (reason !== false) {
  process.stderr.write(`no engine elsewhere: ${reason}\n`);
  process.exit(1);
}
const log = (/** @type {string} */ line) => process.stderr.write(`test-elsewhere: ${line}\n`);
await findBusybox({ cacheDirectory, allowDownload: true, log }); // For the image of the tests' containers.
const given = positionals.length > 0 ? positionals : readdirSync(folder).map((name) => join(folder, name));
const files = given.filter((file) => file.endsWith(".test.ts") && kindOf(file) === "shared");
const engine = await startEngineElsewhere();
for (const name of ["SIGINT", "SIGTERM"])
  process.on(name, () => void engine.close().finally(() => process.exit(1)));
let failed = 0;
/** @type {Set<string>} */
const leftOut = new Set();
try {
  for (const name of /** @type {("unix" | "tcp" | "ssh")[]} */ (values.transport)) {
    const transport = engine[name];
    if ("reason" in transport) {
      process.stdout.write(`${name}  left out: ${transport.reason}\n`);
      continue;
    }
    const { DOCKER_CERT_PATH: certificates, ...env } = transport.env;
    for (const file of files) {
      const { pass, fail, skipped } = await runFile(file, {
        ...env,
        DOCKERSHIM_TEST_DOCKER_ENDPOINT: transport.endpoint,
        DOCKERSHIM_TEST_DOCKER_SOCKET: engine.socket,
        ...(certificates === undefined ? {} : { DOCKERSHIM_TEST_DOCKER_CERT_PATH: certificates }),
        DOCKERSHIM_NO_SETUP: "1",
        [elsewhereVariable]: engine.pid,
      });
      failed += fail;
      for (const test of skipped) leftOut.add(`${basename(file)}: ${test}`);
      const numbers = [pass, skipped.length, fail].map((number) => String(number).padStart(4)).join(" ");
      process.stdout.write(`${name.padEnd(4)}  pass skip fail ${numbers}  ${basename(file)}\n`);
    }
  }
} finally {
  await engine.close();
}
if (leftOut.size > 0)
  process.stdout.write(`\nskipped:\n${[...leftOut].map((line) => `  ${line}\n`).join("")}`);
process.exitCode = failed === 0 ? 0 : 1;
