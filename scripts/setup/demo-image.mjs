/**
 * The image of the demo and of the tests: a static busybox with a link for each of its commands, and the few files
 * that programs expect. Made here and loaded into the engine, so that no registry is needed.
 */
import { createHash } from "node:crypto";
import { parseEndpoint, request } from "./engine.mjs";
import { findBusybox } from "./busybox.mjs";
import { cacheDirectory } from "./paths.mjs";

/**
 * @typedef {import("./busybox.mjs").Busybox} Busybox
 * @typedef {import("./engine.mjs").Address} Address
 * @typedef {import("../../src/shim/pause/image-archive.js").ArchiveEntry} ArchiveEntry
 */

const BINARY_LABEL = "dockershim.busybox.sha256";
/** Counts up when `busyboxLayer` changes, so that an image of an older checkout is replaced. */
const LAYOUT_LABEL = "dockershim.busybox.layout";
const LAYOUT = "1";
const LOAD_DEADLINE_MS = 60_000;
const INSPECT_DEADLINE_MS = 10_000;

/**
 * Sees to it that the engine has the image; loads nothing when it has one of the same busybox. Throws with the reason.
 * @param {{ endpoint: string, reference: string, allowDownload: boolean, log: (line: string) => void }} options
 *   `endpoint` as --docker-endpoint has it; `allowDownload`: of the distribution's package
 */
export async function ensureBusyboxImage({ endpoint, reference, log, allowDownload }) {
  const address = parseEndpoint(endpoint, process.env);
  const { architecture, ...busybox } = await findBusybox({ cacheDirectory, allowDownload, log });
  await requireArchitecture(address, architecture, `this host's busybox is for ${architecture}`);
  const labels = {
    [BINARY_LABEL]: createHash("sha256").update(busybox.content).digest("hex"),
    [LAYOUT_LABEL]: LAYOUT,
  };
  if (await hasImage(address, reference, labels)) return;
  const location = new URL("../../dist/image-archive.js", import.meta.url).href;
  const { buildImageArchive } = await import(location);
  const config = {
    Cmd: ["sh"],
    Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    Labels: labels,
    WorkingDir: "/",
  };
  const layers = [busyboxLayer(busybox)];
  await loadImage(address, await buildImageArchive({ reference, architecture, config, layers }), reference);
  log(`loaded the image ${reference}, made from the distribution's busybox`);
}

/**
 * The files of the image, parents before children.
 * @param {Pick<Busybox, "content" | "applets">} busybox
 * @returns {ArchiveEntry[]}
 */
export function busyboxLayer({ content, applets }) {
  /** @type {(path: string, mode?: number) => ArchiveEntry} */
  const directory = (path, mode = 0o755) => ({ path, type: "directory", mode });
  /** @type {(path: string) => ArchiveEntry} */
  const link = (path) => ({ path, type: "symlink", mode: 0o777, target: "busybox" });
  /** @type {(path: string, text: string) => ArchiveEntry} */
  const text = (path, lines) => ({ path, type: "file", mode: 0o644, content: Buffer.from(lines) });
  return [
    directory("bin"),
    { path: "bin/busybox", type: "file", mode: 0o755, content },
    ...applets.map((name) => link(`bin/${name}`)),
    directory("etc"),
    text("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    text(
      "etc/passwd",
      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
    directory("root", 0o700),
    directory("tmp", 0o1777),
    directory("var"),
    directory("var/run"),
    directory("www"),
    text(
      "www/index.html",
      "<!doctype html><title>dockershim</title><p>A pod on the Docker Engine says hello.</p>\n",
    ),
  ];
}

/**
 * Throws unless the engine runs programs of this architecture.
 * @param {Address} address
 * @param {"amd64" | "arm64"} architecture
 * @param {string} finding what is of this architecture, for the error
 */
export async function requireArchitecture(address, architecture, finding) {
  const { text } = await request(address, { path: "/version", deadlineMs: INSPECT_DEADLINE_MS });
  const { Arch: engine } = JSON.parse(text);
  if (engine !== architecture) throw new Error(`${finding}, the engine runs on ${String(engine)}`);
}

/** @param {Address} address @param {string} reference @param {Record<string, string>} labels */
async function hasImage(address, reference, labels) {
  const path = `/images/${encodeURI(reference)}/json`;
  const { status, text } = await request(address, { path, deadlineMs: INSPECT_DEADLINE_MS });
  if (status !== 200) return false;
  const image = JSON.parse(text);
  return Object.entries(labels).every(([name, value]) => image.Config?.Labels?.[name] === value);
}

/**
 * Gives the engine an image of `buildImageArchive`. Throws with what the engine has said.
 * @param {Address} address
 * @param {Buffer} archive
 * @param {string} reference
 */
export async function loadImage(address, archive, reference) {
  const { status, text } = await request(address, {
    method: "POST",
    path: "/images/load?quiet=1",
    headers: { "Content-Type": "application/x-tar" },
    body: archive,
    deadlineMs: LOAD_DEADLINE_MS,
  });
  // The engine answers 200 before it has read the archive, and puts an error into the stream.
  if (status !== 200 || text.includes('"errorDetail"')) {
    throw new Error(
      `load image "${reference}": the engine answered ${String(status)}: ${text.trim().slice(0, 500)}`,
    );
  }
}
