/** The registry program that the tests of pulls start. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { findProgram } from "./install.mjs";
import { unpackedPackage } from "./packages.mjs";

/**
 * The path of docker-registry: the host's, else that of the distribution's package, unpacked beside the checkout.
 * Installing the package would also start a service on port 5000. An empty path and the reason when there is none.
 * @param {{ cacheDirectory: string, allowDownload: boolean, log: (line: string) => void }} options
 * @returns {Promise<{ path: string, reason: string }>}
 */
export async function findRegistry({ cacheDirectory, allowDownload, log }) {
  const found = findProgram("docker-registry");
  if (found !== undefined) return { path: found, reason: "" };
  const unpacked = join(cacheDirectory, "packages", "docker-registry", "usr", "bin", "docker-registry");
  if (existsSync(unpacked)) return { path: unpacked, reason: "" };
  if (!allowDownload)
    return { path: "", reason: "getting the package docker-registry is forbidden (--no-setup)" };
  try {
    await unpackedPackage({ name: "docker-registry", cacheDirectory, log });
    return { path: unpacked, reason: "" };
  } catch (error) {
    return { path: "", reason: error instanceof Error ? error.message : String(error) };
  }
}
