/**
 * The image of a release: the executable and the libraries that it needs, from this machine or, for the other architecture, from
 * Debian's packages for cross compilers. What `npm run image` and the Dockerfile make has the programs of a host, too.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { ensureBuilt } from "../setup/build.mjs";
import { Layer } from "../setup/image-files.mjs";
import { thisArchitecture } from "./executable.mjs";
import { neededLibraries } from "./node-binary.mjs";

/** @typedef {import("./node-binary.mjs").Architecture} Architecture */

const systems = {
  amd64: { triplet: "x86_64-linux-gnu", loader: "lib64/ld-linux-x86-64.so.2" },
  arm64: { triplet: "aarch64-linux-gnu", loader: "lib/ld-linux-aarch64.so.1" },
};

/**
 * @param {{ root: string, files: readonly import("./tree.mjs").PackageFile[], version: string, commit: string, architecture: Architecture, log: (line: string) => void }} options
 */
export async function imageOf({ root, files, version, commit, architecture, log }) {
  await ensureBuilt({ root, log });
  const { buildImageArchive } = await import(new URL("../../dist/image-archive.js", import.meta.url).href);
  const layer = new Layer();
  for (const { path, content, mode } of files)
    if (/^usr\/(bin|share\/doc)\//.test(path)) layer.file(path, content, mode);
  const programs = files.filter(({ path }) => path.startsWith("usr/bin/")).map(({ content }) => content);
  for (const { path, source } of librariesOf(programs, architecture)) layer.file(path, readFileSync(source));
  layer.file("etc/passwd", Buffer.from("root:x:0:0:root:/root:/sbin/nologin\n"), 0o644);
  layer.file("etc/group", Buffer.from("root:x:0:\n"), 0o644);
  layer.file("etc/nsswitch.conf", Buffer.from("hosts: files dns\n"), 0o644);
  for (const name of ["run", "var"]) layer.directory(name, 0o755);
  layer.directory("root", 0o700);
  layer.directory("tmp", 0o1777);
  layer.link("var/run", "/run");
  const archive = await buildImageArchive({
    reference: `dockershim:${version}`,
    architecture,
    config: {
      Entrypoint: ["/usr/bin/dockershim"],
      Env: [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "MALLOC_ARENA_MAX=1",
        "MALLOC_TRIM_THRESHOLD_=131072",
      ],
      WorkingDir: "/",
      Labels: {
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.revision": commit,
        "org.opencontainers.image.title": "dockershim",
        "org.opencontainers.image.version": version,
      },
    },
    layers: [layer.sorted()],
  });
  return gzipSync(archive);
}

/**
 * The libraries of `programs` and what these need, by their paths in the image, with the loader.
 * @param {readonly Buffer[]} programs
 * @param {Architecture} architecture
 */
export function librariesOf(programs, architecture) {
  const { triplet, loader } = systems[architecture];
  const isOwn = architecture === thisArchitecture;
  const directories = isOwn
    ? [`/lib/${triplet}`, `/usr/lib/${triplet}`, "/lib64", "/usr/lib64"]
    : [`/usr/${triplet}/lib`];
  /** @type {Map<string, string>} */
  const found = new Map();
  const queue = programs.flatMap(neededLibraries);
  for (const name of queue) {
    if (found.has(name)) continue;
    const directory = directories.find((each) => existsSync(join(each, name)));
    if (directory === undefined) {
      const advice = isOwn
        ? ""
        : `; Debian has those of ${architecture} for cross compilers: crossbuild-essential-${architecture}`;
      throw new Error(
        `the image needs ${name} for ${architecture}, which is not in ${directories.join(", ")}${advice}`,
      );
    }
    found.set(name, join(directory, name));
    queue.push(...neededLibraries(readFileSync(join(directory, name))));
  }
  return [...found].map(([name, source]) => {
    const place = isOwn ? dirname(source).slice(1) : `lib/${triplet}`;
    return { path: loader.endsWith(`/${name}`) ? loader : `${place}/${name}`, source };
  });
}
