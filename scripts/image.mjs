#!/usr/bin/env node
/**
 * `npm run image -- [NAME:TAG]`: makes the image of the program without a registry, and loads it into the engine. It has the
 * Node.js that runs this script, the build, and this host's programs and libraries that the program uses. The same files make
 * the same image. The Dockerfile makes one of the same layout from a distribution's packages.
 */
import { ensureBuilt } from "./setup/build.mjs";
import { loadImage, requireArchitecture } from "./setup/demo-image.mjs";
import { defaultEndpoint, parseEndpoint } from "./setup/engine.mjs";
import { imageConfig, imageLayers, thisArchitecture } from "./setup/image-files.mjs";
import { repositoryRoot } from "./setup/paths.mjs";

const log = (/** @type {string} */ line) => process.stderr.write(`image: ${line}\n`);

/** @param {string} reference */
async function makeImage(reference) {
  if (process.platform !== "linux") {
    throw new Error(
      "the image has this host's programs, so it can be made on Linux only; use: docker build -t dockershim .",
    );
  }
  const endpoint = process.env["DOCKER_HOST"] ?? defaultEndpoint;
  const address = parseEndpoint(endpoint, process.env);
  const architecture = thisArchitecture();
  await requireArchitecture(address, architecture, `this host is ${architecture}`);
  await ensureBuilt({ root: repositoryRoot, log });
  const { buildImageArchive } = await import("../dist/image-archive.js");
  const layers = await imageLayers({ root: repositoryRoot, log });
  const archive = await buildImageArchive({ reference, architecture, config: imageConfig, layers });
  await loadImage(address, archive, reference);
  const bytes = layers.flat().reduce((sum, { content }) => sum + (content?.length ?? 0), 0);
  log(`loaded ${reference}, ${(bytes / 1e6).toFixed(0)} MB, into the engine at ${endpoint}`);
}

const [reference = "dockershim:latest", ...others] = process.argv.slice(2);
try {
  if (others.length > 0 || reference.startsWith("-")) throw new Error("usage: npm run image -- [NAME:TAG]");
  await makeImage(reference);
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
