import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { type FoundEngine, findEngine } from "../../../src/shim/config/docker-context.js";

interface Node {
  readonly environment?: Readonly<Record<string, string>>;
  /** By path. */
  readonly files?: Readonly<Record<string, string>>;
  readonly sockets?: readonly string[];
}

function find({ environment = { HOME: "/home/u" }, files = {}, sockets = [] }: Node): Promise<FoundEngine> {
  return findEngine(environment, {
    readFile: (path) => {
      const text = files[path];
      return text === undefined ? Promise.reject(new Error(`ENOENT: ${path}`)) : Promise.resolve(text);
    },
    isSocket: (path) => Promise.resolve(sockets.includes(path)),
  });
}

const id = (name: string): string => createHash("sha256").update(name).digest("hex");
const meta = (name: string, host: string, more = {}): Record<string, string> => ({
  [`/home/u/.docker/contexts/meta/${id(name)}/meta.json`]: JSON.stringify({
    Name: name,
    Metadata: {},
    Endpoints: { docker: { Host: host, SkipTLSVerify: false, ...more } },
  }),
});
const current = (name: string): Record<string, string> => ({
  "/home/u/.docker/config.json": JSON.stringify({ auths: {}, currentContext: name }),
});
const contextOf = (name: string, verify: boolean): object => ({
  detail: `context "${name}"`,
  context: { name, tlsDirectory: `/home/u/.docker/contexts/tls/${id(name)}/docker`, verify },
});
const standard = { endpoint: { kind: "unix", path: "/var/run/docker.sock" }, detail: "" };

const cases: readonly (readonly [string, Node, object])[] = [
  ["nothing is there", {}, standard],
  ["there is no home directory", { environment: {} }, standard],
  [
    "it is Windows without a context",
    { environment: { OS: "Windows_NT", USERPROFILE: "/home/u" } },
    { endpoint: { kind: "unix", path: "//./pipe/docker_engine" }, detail: "" },
  ],
  [
    "it is Windows with Docker Desktop's context",
    {
      environment: { OS: "Windows_NT", USERPROFILE: "/home/u", HOME: "/other" },
      files: { ...current("desktop"), ...meta("desktop", "npipe:////./pipe/dockerDesktopLinuxEngine") },
    },
    {
      endpoint: { kind: "unix", path: "//./pipe/dockerDesktopLinuxEngine" },
      ...contextOf("desktop", true),
    },
  ],
  ["the current context is the default one", { files: current("default") }, standard],
  ["Docker's configuration is no JSON", { files: { "/home/u/.docker/config.json": "{" } }, standard],
  [
    "there is a current context",
    { files: { ...current("far"), ...meta("far", "ssh://root@far") } },
    {
      endpoint: { kind: "ssh", user: "root", host: "far" },
      ...contextOf("far", true),
    },
  ],
  [
    "DOCKER_CONTEXT names another one",
    {
      environment: { HOME: "/home/u", DOCKER_CONTEXT: "lab" },
      files: { ...current("far"), ...meta("lab", "tcp://lab:2376", { SkipTLSVerify: true }) },
    },
    {
      endpoint: { kind: "tcp", host: "lab", port: 2376 },
      ...contextOf("lab", false),
    },
  ],
  [
    "DOCKER_CONTEXT is the default one",
    { environment: { HOME: "/home/u", DOCKER_CONTEXT: "default" }, files: current("far") },
    standard,
  ],
  [
    "DOCKER_CONFIG is another directory",
    {
      environment: { DOCKER_CONFIG: "/home/u/.docker" },
      files: { ...current("x"), ...meta("x", "unix:///x") },
    },
    {
      endpoint: { kind: "unix", path: "/x" },
      ...contextOf("x", true),
    },
  ],
  [
    "only Colima's socket is there",
    { sockets: ["/home/u/.colima/default/docker.sock"] },
    { endpoint: { kind: "unix", path: "/home/u/.colima/default/docker.sock" }, detail: "Colima" },
  ],
  [
    "only a rootless engine is there",
    { environment: { XDG_RUNTIME_DIR: "/run/user/5" }, sockets: ["/run/user/5/docker.sock"] },
    { endpoint: { kind: "unix", path: "/run/user/5/docker.sock" }, detail: "rootless Docker" },
  ],
  [
    "the default socket is there, too",
    { sockets: ["/var/run/docker.sock", "/home/u/.docker/run/docker.sock"] },
    standard,
  ],
];
for (const [what, node, expected] of cases)
  test(`findEngine() when ${what}`, async () => {
    assert.deepEqual(await find(node), expected);
  });

const refused: readonly (readonly [string, Node, RegExp])[] = [
  [
    "is missing",
    { files: current("gone") },
    /^"currentContext" of \/home\/u\/\.docker\/config\.json: Docker context "gone": read ".*meta\.json": ENOENT.*docker context use default/,
  ],
  [
    "has no engine",
    {
      environment: { HOME: "/home/u", DOCKER_CONTEXT: "k" },
      files: { [`/home/u/.docker/contexts/meta/${id("k")}/meta.json`]: '{"Name":"k","Endpoints":{}}' },
    },
    /^environment variable "DOCKER_CONTEXT": Docker context "k": it has no endpoint of an engine/,
  ],
  [
    "is of another kind",
    { files: { ...current("w"), ...meta("w", "fd://x") } },
    /Docker context "w": "fd:\/\/x": must be/,
  ],
  [
    "is named without a home directory",
    { environment: { DOCKER_CONTEXT: "k" } },
    /Docker context "k": neither DOCKER_CONFIG nor a home directory is set/,
  ],
];
for (const [what, node, message] of refused)
  test(`findEngine() refuses a context that ${what}`, async () => {
    await assert.rejects(find(node), { kind: "invalid", message });
  });
