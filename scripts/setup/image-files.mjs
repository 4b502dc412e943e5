/** The files of the program's image: Node.js, the build, and the programs of a host with the libraries that they need. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { filesBelow } from "./build.mjs";
import { findProgram } from "./install.mjs";

/**
 * @typedef {import("../../src/shim/pause/image-archive.js").ArchiveEntry} ArchiveEntry
 * @typedef {import("../../src/shim/pause/image-archive.js").ImageConfig} ImageConfig
 */

const home = "opt/dockershim";
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** As in the Dockerfile. @type {ImageConfig} */
export const imageConfig = {
  Entrypoint: [`/${home}/entrypoint`],
  Env: [`PATH=${path}`],
  WorkingDir: "/",
};

/** Without these the image does not start. */
const neededPrograms = ["sh", "dirname", "readlink", "mkdir", "rm"];
/** What the server and play run. What is missing is missing in the image, too, and each use of it says so. */
const wantedPrograms = [
  ...["nsenter", "ip", "conntrack", "ebtables"],
  ...["iptables", "ip6tables"].flatMap((name) =>
    ["", "-nft", "-legacy"].flatMap((backend) =>
      ["", "-save", "-restore"].map((verb) => `${name}${backend}${verb}`),
    ),
  ),
];
/** For pods on CNI's bridge. They work in the host's namespaces. */
const cniPlugins = ["bridge", "host-local", "loopback", "portmap"];
const cniDirectories = ["/opt/cni/bin", "/usr/lib/cni"];
/** Where the image has them: the host's own directory, which is mounted over /opt/cni/bin, must not hide them. */
const cniTarget = "usr/lib/cni";

/** @returns {"amd64" | "arm64"} */
export function thisArchitecture() {
  if (process.arch === "x64") return "amd64";
  if (process.arch === "arm64") return "arm64";
  throw new Error(
    `no image for the processor architecture ${process.arch}: the programs in native/bin are for amd64 and arm64`,
  );
}

/**
 * Two layers: the host's programs, which stay the same from build to build, and the build. Throws when a needed program is missing.
 * @param {{ root: string, log: (line: string) => void }} options
 * @returns {Promise<ArchiveEntry[][]>}
 */
export async function imageLayers({ root, log }) {
  const programs = new Map([["/usr/bin/node", process.execPath]]);
  for (const name of [...neededPrograms, ...wantedPrograms]) {
    const found = findProgram(name);
    if (found !== undefined) programs.set(`/usr/bin/${name}`, found);
    else if (neededPrograms.includes(name)) throw new Error(`"${name}" is not installed; the image needs it`);
    else log(`left out, not installed here: ${name}`);
  }
  for (const name of cniPlugins) {
    const directory = cniDirectories.find((each) => existsSync(join(each, name)));
    if (directory === undefined) log(`left out, not installed here: the CNI plugin ${name}`);
    else programs.set(`/${cniTarget}/${name}`, join(directory, name));
  }
  return [hostLayer(programs), buildLayer(root)];
}

/**
 * @param {Map<string, string>} programs paths in the image, and on this host
 * @returns {ArchiveEntry[]}
 */
function hostLayer(programs) {
  const layer = new Layer();
  // Programs of many names, as iptables, are one file with links.
  /** @type {Map<string, string>} */
  const firstNames = new Map();
  for (const [target, source] of programs) {
    const real = realpathSync(source);
    const first = firstNames.get(real);
    if (first !== undefined) layer.link(target, first);
    else layer.file(target, stripped(real));
    if (first === undefined) firstNames.set(real, target);
  }
  const files = [...firstNames.keys()].flatMap(librariesOf);
  for (const file of new Set([...iptablesExtensions([...firstNames.keys()]), ...files]))
    layer.file(file, readFileSync(file));
  for (const name of ["bin", "etc", "run", "var"]) layer.directory(name, 0o755);
  layer.directory("root", 0o700);
  layer.directory("tmp", 0o1777);
  layer.link("bin/sh", "/usr/bin/sh");
  layer.link("var/run", "/run");
  layer.file("etc/passwd", Buffer.from("root:x:0:0:root:/root:/bin/sh\n"), 0o644);
  layer.file("etc/group", Buffer.from("root:x:0:\n"), 0o644);
  return layer.sorted();
}

/** @param {string} root @returns {ArchiveEntry[]} */
function buildLayer(root) {
  const layer = new Layer();
  const suffix = `-${thisArchitecture()}`;
  const files = [
    ...["package.json", "LICENSE", join("bin", "dockershim")],
    // The maps are for who changes the sources.
    ...filesBelow(root, "dist").filter((file) => !file.endsWith(".map")),
    ...filesBelow(root, join("native", "bin")).filter((file) => file.endsWith(suffix)),
  ];
  for (const file of files) {
    const isProgram = (statSync(join(root, file)).mode & 0o100) !== 0;
    layer.file(`${home}/${file}`, readFileSync(join(root, file)), isProgram ? 0o755 : 0o644);
  }
  for (const name of ["entrypoint", "share-directories"])
    layer.file(`${home}/${name}`, readFileSync(join(root, "scripts", "image", name)));
  layer.link("usr/local/bin/dockershim", `/${home}/bin/dockershim`);
  return layer.sorted();
}

/** Entries by their paths, which begin without a slash; the directories above them are added. */
export class Layer {
  /** @type {Map<string, ArchiveEntry>} */
  entries = new Map();

  /** @type {(path: string, content: Buffer, mode?: number) => void} */
  file(path, content, mode = 0o755) {
    this.#add({ path, type: "file", mode, content });
  }

  /** @type {(path: string, target: string) => void} */
  link(path, target) {
    this.#add({ path, type: "symlink", mode: 0o777, target });
  }

  /** @type {(path: string, mode: number) => void} */
  directory(path, mode) {
    this.#add({ path, type: "directory", mode });
  }

  sorted() {
    return [...this.entries.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** @param {ArchiveEntry} entry */
  #add(entry) {
    const path = entry.path.replace(/^\/+/, "");
    const parent = dirname(path);
    if (parent !== "." && !this.entries.has(parent)) this.directory(parent, 0o755);
    this.entries.set(path, { ...entry, path });
  }
}

/**
 * The program without its symbols, which are an eighth of Node.js, where `strip` is installed.
 * @param {string} program
 */
function stripped(program) {
  const content = readFileSync(program);
  if (program !== realpathSync(process.execPath) || findProgram("strip") === undefined) return content;
  const directory = mkdtempSync(join(tmpdir(), "dockershim-image-"));
  try {
    const target = join(directory, basename(program));
    execFileSync("strip", ["-o", target, program]);
    return readFileSync(target);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * The files that iptables loads for the matches and targets of rules.
 * @param {readonly string[]} programs
 */
function iptablesExtensions(programs) {
  const iptables = programs.find((program) => basename(program).startsWith("xtables-"));
  if (iptables === undefined) return [];
  const libraries = librariesOf(iptables).map((library) => dirname(realpathSync(library)));
  const directory = libraries.map((each) => join(each, "xtables")).find((each) => existsSync(each));
  if (directory === undefined) return [];
  return readdirSync(directory)
    .filter((name) => name.endsWith(".so"))
    .map((name) => join(directory, name));
}

/**
 * The shared libraries of a program and its loader, by the paths by which they are found; none of a static one.
 * @param {string} program
 * @returns {string[]}
 */
export function librariesOf(program) {
  // It fails for a static program and for a script.
  const { stdout } = spawnSync("ldd", [program], { encoding: "utf8" });
  return [...(stdout ?? "").matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].map(([, library = ""]) => library);
}
