#!/usr/bin/env node
/**
 * Checks who may import whom (`npm run lint`): the layers of ARCHITECTURE.md, which packages belong to which layer,
 * and that no modules import each other in a circle. One line per violation.
 */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { filesBelow } from "./setup/build.mjs";
import { repositoryRoot } from "./setup/paths.mjs";

/** @typedef {{ specifier: string, line: number, when: "start" | "late" | "never" }} Import `never`: a type, which costs nothing at run time */
/** @typedef {{ path: string, imports: Import[] }} Module `path` relative to the repository, with slashes */

const base = ["lib", "domain"];
const model = [...base, "ports"];
const adapter = [...model, "native"];
/** What the RPCs are made of; each may import those before it. */
const rules = [...model, "plan", "state"];
const helpers = ["images", "limits", "recovery"];
const adapters = [
  ...["checkpoints", "engine", "host", "logs", "metrics", "network"],
  ...["oci-runtime", "page", "pause", "pod-dialer", "registry", "stats", "streaming", "tracing"],
];
/** The rooms inside play, compare and migrate; each may import those before it. */
const playRooms = [
  ...["manifests", "cri", "pod-config", "node", "remote-engine", "probes", "pod-rules", "kubelet"],
  ...["controllers", "services", "store", "session", "streams", "view", "pod-commands"],
].map((room) => `play/${room}`);
const compareRooms = [
  ...["answers", "relay", "record", "shadow", "replay", "diff"].map((room) => `compare/${room}`),
  "compare",
];
const migrateRooms = ["files", "systemd", "facts", "kubelet", "node", "judge", "plan", "rehearse"].map(
  (room) => `migrate/${room}`,
);
const daemon = [
  ...[...rules, ...helpers, "native", ...adapters],
  ...["cri", "cadvisor", "grpc", "config", "history"],
];
const products = [
  ...["serve", "forward-cli", "play-cli", "compare-cli", "migrate-cli", "checkpoints-cli"],
  ...["install-cli", "doctor-cli", "history-cli"],
];

/**
 * @param {readonly string[]} rooms
 * @param {readonly string[]} below
 * @returns {Record<string, readonly string[]>}
 */
function stacked(rooms, below) {
  return Object.fromEntries(rooms.map((room, at) => [room, [...below, ...rooms.slice(0, at)]]));
}

/**
 * What each layer may import beside itself, from the bottom to the top.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const layers = {
  lib: [],
  // Clients of the programs in native/.
  native: ["lib"],
  domain: ["lib"],
  ports: base,
  plan: model,
  state: model,
  config: base,
  // What happened to pods: written by the server, read also without it.
  history: model,
  recovery: rules,
  limits: rules,
  images: [...rules, "recovery"],
  grpc: [...model, "plan"],
  cri: [...rules, ...helpers, "grpc"],
  cadvisor: [...rules, ...helpers, "grpc"],
  ...Object.fromEntries(adapters.map((name) => [name, adapter])),
  page: [...adapter, "history"],
  // Clients of the CRI: they see what a kubelet sees.
  client: [...base, "grpc"],
  ...stacked(playRooms, [...model, "registry", "config", "client"]),
  // Compares, observes, records and replays CRI servers.
  ...stacked(compareRooms, [...base, "client", "grpc"]),
  // Reads a node and its runtimes.
  ...stacked(migrateRooms, [
    ...[...model, "plan", "config", "client", "checkpoints", "engine", "host", "network"],
    ...compareRooms,
  ]),
  // Writes an installation to a node, and takes it away.
  install: [...base, "native", "network", "migrate/files", "migrate/node"],
  // The one place where adapters meet what uses them.
  app: daemon,
  // Judges a node with its engine, kubelet and server.
  doctor: [...daemon, "client", ...compareRooms, ...migrateRooms, "app", "cli", "serve"],
  // What every command line has.
  cli: [...base, "config"],
  // The commands of each product.
  serve: [...daemon, ...migrateRooms, "app", "cli"],
  "play-cli": [...adapter, "registry", "engine", "pause", "config", "client", ...playRooms, "app", "cli"],
  "forward-cli": [...adapter, "engine", "config", ...playRooms, "app", "cli", "play-cli"],
  "compare-cli": [...base, "config", "client", "grpc", ...compareRooms, "cli"],
  "checkpoints-cli": [...adapter, "state", "checkpoints", "config", "app", "cli", "serve"],
  "migrate-cli": [...daemon, "client", ...compareRooms, ...migrateRooms, "app", "cli"],
  "install-cli": [...daemon, "client", "play/node", "app", "cli", "serve", "install"],
  "doctor-cli": [...daemon, ...migrateRooms, "app", "cli", "serve", "doctor"],
  "history-cli": [...base, "config", "history", "cli", "serve"],
  main: [...base, "cli", ...products],
};

/** The folders of the layers. The first that fits has the file. Layers of `src/shim` have their name. */
const folders = [
  ["src/lib/", "lib"],
  ["src/domain/", "domain"],
  ["src/client/", "client"],
  ["src/network/", "network"],
  ["src/history/cli/", "history-cli"],
  ["src/history/", "history"],
  ["src/doctor/cli/", "doctor-cli"],
  ["src/doctor/", "doctor"],
  ["src/compare/cli/", "compare-cli"],
  ...compareRooms.map((room) => [`src/${room}/`, room]),
  ["src/play/cli/", "play-cli"],
  ...playRooms.map((room) => [`src/${room}/`, room]),
  ["src/migrate/cli/", "migrate-cli"],
  ...migrateRooms.map((room) => [`src/${room}/`, room]),
  ["src/forward/", "forward-cli"],
  ["src/install/cli/", "install-cli"],
  ["src/install/", "install"],
  ["src/cli/", "cli"],
  ["src/main/", "main"],
  ["checkpoints/cli/", "checkpoints-cli"],
  ["checkpoints/", "checkpoints"],
];

/** Layers that are functions of their input alone. */
const pureLayers = ["domain", "plan", "play/pod-rules"];

/**
 * Which paths may import a package at all. At the top: the bundle cannot tell the names that a package in CommonJS exports when it
 * is imported by `await import()`.
 * @type {readonly { match: RegExp, where: RegExp }[]}
 */
const packages = [
  { match: /^dockerode$/, where: /^src\/shim\/engine\// },
  { match: /^tar-stream$/, where: /^src\/(shim\/(engine|host|pause)|play\/pod-commands|doctor\/bundle)\// },
  { match: /^@grpc\//, where: /^src\/(shim\/grpc|client)\// },
  { match: /^ws$/, where: /^src\/shim\/streaming\// },
  { match: /^commander$/, where: /(^|\/)cli\/|^src\/(main|forward|shim\/serve)\// },
  { match: /^pino$/, where: /^src\/lib\/log\.ts$/ },
  { match: /^prom-client$/, where: /^src\/shim\/metrics\/prom-client\.ts$/ },
  { match: /^@opentelemetry\//, where: /^src\/shim\/tracing\// },
  { match: /^diff$/, where: /^src\/migrate\// },
  { match: /^yaml$/, where: /^src\/lib\/yaml\.ts$/ },
];

/** Modules around a large package that few runs need; they are imported by `await import()`. */
const lateModules = [
  "src/lib/yaml.ts",
  "src/shim/metrics/prom-client.ts",
  "src/shim/tracing/opentelemetry.ts",
];

/**
 * The layer of a source file, undefined when its folder is none.
 * @param {string} path
 * @returns {string | undefined}
 */
export function layerOf(path) {
  const folder = folders.find(([start = ""]) => path.startsWith(start));
  const layer = folder?.[1] ?? /^src\/shim\/([\w-]+)\//.exec(path)?.[1];
  return layer !== undefined && layer in layers ? layer : undefined;
}

/**
 * The source file that a relative import means.
 * @param {string} from
 * @param {string} specifier
 */
function resolve(from, specifier) {
  return join(dirname(from), specifier).replace(/\.js$/, ".ts");
}

/**
 * All violations, one readable line each.
 * @param {readonly Module[]} modules
 * @returns {string[]}
 */
export function violations(modules) {
  return [
    ...modules.flatMap((module) => module.imports.flatMap((entry) => check(module.path, entry))),
    ...cycles(modules),
  ];
}

/**
 * @param {string} path
 * @param {Import} entry
 * @returns {string[]}
 */
function check(path, { specifier, line, when }) {
  const place = `${path}:${String(line)}`;
  const layer = layerOf(path);
  if (layer === undefined) return [`${place}: the folder is no layer that scripts/check-layers.mjs knows`];
  if (!specifier.startsWith(".")) {
    const text = packageProblem(path, layer, specifier, when);
    return text === undefined ? [] : [`${place}: imports ${text}`];
  }
  const target = resolve(path, specifier);
  if (lateModules.includes(target) && when === "start") {
    return [`${place}: imports ${target} at the top, it must be await import()`];
  }
  const below = layers[layer] ?? [];
  if ([layer, ...below].includes(layerOf(target) ?? "")) return [];
  const allowed = below.join(", ");
  const rule = allowed === "" ? "imports no other layer" : `imports only ${allowed}`;
  return [`${place}: imports ${target}, but ${layer} ${rule}`];
}

/**
 * @param {string} path
 * @param {string} layer
 * @param {string} specifier
 * @param {Import["when"]} when
 */
function packageProblem(path, layer, specifier, when) {
  if (specifier.startsWith("node:"))
    return pureLayers.includes(layer) ? `${specifier}, but ${layer} uses no module of Node.js` : undefined;
  const rule = packages.find(({ match }) => match.test(specifier));
  if (rule === undefined) return `the package ${specifier}, which scripts/check-layers.mjs does not know`;
  if (!rule.where.test(path))
    return `the package ${specifier}, which belongs elsewhere (${rule.where.source})`;
  return when === "late" ? `the package ${specifier} late, it must be at the top of a module` : undefined;
}

/**
 * One line per circle of imports, each circle once.
 * @param {readonly Module[]} modules
 * @returns {string[]}
 */
function cycles(modules) {
  const graph = new Map(
    modules.map(({ path, imports }) => [path, imports.map(({ specifier }) => resolve(path, specifier))]),
  );
  /** @type {string[]} */
  const found = [];
  const done = new Set();
  const visit = (/** @type {string} */ path, /** @type {string[]} */ trail) => {
    const start = trail.indexOf(path);
    if (start >= 0)
      found.push(`${path}: imports itself in a circle: ${[...trail.slice(start), path].join(" -> ")}`);
    if (start >= 0 || done.has(path)) return;
    for (const target of graph.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return found;
}

/**
 * The imports of a TypeScript file in prettier's format, types too.
 * @param {string} text
 * @returns {Import[]}
 */
export function importsOf(text) {
  const statement = /^(?:import|export) (?:(type )?[\w\s$*{},]*? from )?"([^"]+)";|\bimport\(\s*"([^"]+)"/gm;
  return [...text.matchAll(statement)].map(({ 1: isType, 2: atTop, 3: inside = "", index }) => ({
    specifier: atTop ?? inside,
    line: text.slice(0, index).split("\n").length,
    when: atTop === undefined ? "late" : isType === undefined ? "start" : "never",
  }));
}

function main() {
  const files = ["src", "checkpoints"].flatMap((folder) => filesBelow(repositoryRoot, folder));
  const modules = files
    .filter((path) => path.endsWith(".ts"))
    .map((path) => ({ path, imports: importsOf(readFileSync(join(repositoryRoot, path), "utf8")) }));
  const found = violations(modules);
  const summary = `${String(modules.length)} modules, ${String(found.length)} violations of the layers`;
  process.stdout.write(`${[...found, summary].join("\n")}\n`);
  process.exitCode = found.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
