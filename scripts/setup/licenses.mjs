/** The licenses of npm packages whose code is in a bundle: most of them want their text to go with every copy. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Up to the name of the innermost package. */
const packageDirectory = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
const licenseFile = /^(?:licen[cs]e|copying|notice)/i;

/**
 * One text for all packages that one of `inputs` belongs to, in the order of their directories.
 * @param {{ root: string, inputs: Iterable<string> }} options `inputs`: files, relative to `root`
 */
export function licensesOf({ root, inputs }) {
  /** @type {Set<string>} */
  const directories = new Set();
  for (const input of inputs) {
    const [directory] = packageDirectory.exec(input) ?? [];
    if (directory !== undefined) directories.add(directory);
  }
  return [...directories]
    .sort()
    .map((directory) => licenseOf(join(root, directory)))
    .join("\n");
}

/**
 * A package without such a file names its license in its package.json.
 * @param {string} directory
 */
function licenseOf(directory) {
  const text = readFileSync(join(directory, "package.json"), "utf8");
  const { name, version, license } = /** @type {Record<string, unknown>} */ (JSON.parse(text));
  const files = readdirSync(directory)
    .filter((file) => licenseFile.test(file))
    .sort()
    .map((file) => `\n${readFileSync(join(directory, file), "utf8").trim()}\n`);
  return `==== ${String(name)} ${String(version)}, ${String(license)}\n${files.join("")}`;
}
