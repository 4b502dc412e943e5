#!/usr/bin/env node
/**
 * Plays every workload below a directory by itself, with stand-ins for its images, and says what became of each.
 * docs/play/play-workloads.md is made of its results. It needs gcc, and a server at the engine that it names.
 *
 *     node scripts/play-workloads.mjs [flags] DIRECTORY > RESULTS.json
 *       --endpoint E         of the CRI server (default: as `dockershim play`)
 *       --docker-endpoint E  of its engine (default: DOCKER_HOST, else unix:///var/run/docker.sock)
 *       --only WORD          workloads whose path has it
 *       --at-once N          so many side by side (default 4)
 *       --keep-files DIR     where the played files go (default: a temporary directory)
 *
 * The result has the fields of test/golden/play-workloads.json for one repository, without its name and commit.
 * Exit code 0: everything was played, whatever came out.
 */
import { execFile, execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ensureBuilt } from "./setup/build.mjs";
import { loadImage } from "./setup/demo-image.mjs";
import { defaultEndpoint, parseEndpoint } from "./setup/engine.mjs";
import { thisArchitecture } from "./setup/image-files.mjs";
import { builtMain, repositoryRoot } from "./setup/paths.mjs";
import { companionsOf } from "./play-workloads/companions.mjs";
import { readWorkloads } from "./play-workloads/read-workloads.mjs";
import { programsOf, standIn } from "./play-workloads/stand-in.mjs";

const images = { any: "dockershim.local/stand-in:root", nonRoot: "dockershim.local/stand-in:65532" };
/** What the slowest probes take before their container is ready. */
const waitSeconds = 240;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    endpoint: { type: "string" },
    "docker-endpoint": { type: "string" },
    only: { type: "string", default: "" },
    "at-once": { type: "string", default: "4" },
    "keep-files": { type: "string" },
  },
});
const log = (/** @type {string} */ line) => process.stderr.write(`${line}\n`);

/**
 * Runs `dockershim play`; never throws.
 * @param {readonly string[]} args
 * @returns {Promise<{ code: number, errors: string }>}
 */
function play(args) {
  const endpoint = values.endpoint === undefined ? [] : ["--endpoint", values.endpoint];
  const options = { maxBuffer: 64 * 1024 * 1024, timeout: (waitSeconds + 120) * 1000 };
  return new Promise((done) => {
    execFile(process.execPath, [builtMain, "play", ...endpoint, ...args], options, (error, _, errors) =>
      done({ code: error === null ? 0 : typeof error.code === "number" ? error.code : 1, errors }),
    );
  });
}

/**
 * The stand-in under every name that a probe or a hook runs.
 * @param {Iterable<string>} programs
 */
async function loadStandIn(programs) {
  const source = fileURLToPath(new URL("play-workloads/stand-in.c", import.meta.url));
  const built = join(files, "stand-in");
  execFileSync("gcc", ["-static", "-Os", "-s", "-o", built, source]);
  const paths = [
    ...new Set([...programs].map((name) => posix.join("/bin", name.startsWith("/") ? `..${name}` : name))),
  ].map((path) => path.slice(1));
  const directories = new Set(["tmp"]);
  for (const path of paths) {
    for (let parent = dirname(path); parent !== "."; parent = dirname(parent)) directories.add(parent);
  }
  const layer = [
    { path: "stand-in", type: "file", mode: 0o755, content: await readFile(built) },
    ...[...directories].sort().map((path) => ({ path, type: "directory", mode: 0o1777 })),
    ...paths.map((path) => ({ path, type: "symlink", mode: 0o777, target: "/stand-in" })),
  ];
  const { buildImageArchive } = await import("../dist/image-archive.js");
  const engine = parseEndpoint(
    values["docker-endpoint"] ?? process.env["DOCKER_HOST"] ?? defaultEndpoint,
    process.env,
  );
  for (const [reference, User] of [
    [images.any, "0"],
    [images.nonRoot, "65532"],
  ]) {
    const config = { Cmd: ["/stand-in"], Env: ["PATH=/bin"], WorkingDir: "/", User };
    const architecture = thisArchitecture();
    const archive = await buildImageArchive({ reference, architecture, config, layers: [layer] });
    await loadImage(engine, archive, reference);
  }
}

/** The last message of play, without names of files that exist for this run only. @param {string} errors */
function reasonOf(errors) {
  const begin = errors.lastIndexOf("dockershim play: ");
  const [first = "", ...problems] = errors
    .slice(Math.max(0, begin))
    .trim()
    .split(/\s*\n\s*/);
  const lines = first.includes("nothing was started:") ? problems : [first, ...problems];
  return lines
    .map((line) => line.replace("dockershim play: ", "").replaceAll(`${files}/`, ""))
    .map((line) => line.replace(/^\d{4}\.yaml(, document \d+)?(, line \d+)?: /, ""))
    .join("; ")
    .slice(0, 500);
}

const [directory] = positionals;
if (directory === undefined) {
  log("usage: node scripts/play-workloads.mjs [flags] DIRECTORY");
  process.exit(2);
}
const files = resolve(values["keep-files"] ?? (await mkdtemp(join(tmpdir(), "play-workloads-"))));
await mkdir(files, { recursive: true });
await ensureBuilt({ root: repositoryRoot, log });
const { objects, workloads: all } = await readWorkloads(resolve(directory));
const workloads = all.filter(({ path }) => path.includes(values.only));
log(`${workloads.length} workloads`);
await loadStandIn(new Set(["sh", "bash", "cat", ...workloads.flatMap(programsOf)]));
/** @type {object[]} */
const results = [];
/** What runs: the names of pods, and "host" for one that needs ports of the host, of which there is one at a time. */
const taken = new Set();

/** @param {typeof workloads[number]} workload @param {number} index */
async function playOne(workload, index) {
  const { path, kind, name, document } = workload;
  const { services, made, text } = companionsOf(workload, objects);
  const file = `${String(index).padStart(4, "0")}.yaml`;
  await writeFile(join(files, file), [standIn(workload, images), ...text].join("---\n"));
  const { code, errors } = await play([`--wait=${waitSeconds}s`, "--local-volumes", join(files, file)]);
  const result = code === 0 ? "ready" : errors.includes("nothing was started:") ? "refused" : "not ready";
  if (result !== "refused") {
    const down = await play(["--down", "--local-volumes", join(files, file)]);
    if (down.code !== 0) log(`${path}: --down: ${reasonOf(down.errors)}`);
  }
  results[index] = {
    ...{ path, ...(document > 1 && { document }), kind, name, result },
    ...(code !== 0 && { reason: reasonOf(errors) }),
    ...(services > 0 && { services }),
    ...(made.length > 0 && { made }),
  };
  log(`${file} ${result} ${path} ${kind} ${name}`);
}

/** Plays what may run beside that which runs, until nothing is left. */
async function playNext() {
  for (;;) {
    const at = waiting.findIndex(({ names }) => names.every((name) => !taken.has(name)));
    const [next] = at < 0 ? [] : waiting.splice(at, 1);
    if (next === undefined) {
      if (waiting.length === 0) return;
      await sleep(200);
      continue;
    }
    for (const name of next.names) taken.add(name);
    await playOne(next.workload, next.index);
    for (const name of next.names) taken.delete(name);
  }
}

const needsHost = /hostPort|hostNetwork|LoadBalancer|NodePort/;
const waiting = workloads.map((workload, index) => {
  const { object, name } = workload;
  const texts = [JSON.stringify(object), ...companionsOf(workload, objects).text];
  const names = [`${object["metadata"]?.namespace ?? "default"}/${name}`];
  return { workload, index, names: texts.some((text) => needsHost.test(text)) ? [...names, "host"] : names };
});
await Promise.all(Array.from({ length: Number(values["at-once"]) }, playNext));
process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`);
if (values["keep-files"] === undefined) await rm(files, { recursive: true });
