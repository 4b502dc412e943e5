#!/usr/bin/env node
/**
 * Reports words that the section "Words" of CONTRIBUTING.md replaces by others, also as parts of identifiers and of the
 * names of files, and lines of Markdown that are too long to review.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { filesBelow } from "./setup/build.mjs";
import { repositoryRoot } from "./setup/paths.mjs";

const folders = ["src", "checkpoints", "test", "docs", "pause", "scripts"];
const documents = ["README.md", "ARCHITECTURE.md"];
/** The words of others: recorded data, and names that Kubernetes or Docker gave. */
const exempt = /^(test\/golden\/|pause\/bin\/|src\/shim\/domain\/cri\.ts$)/;
const MAX_LINE = 110;
const MAX_CELL = 160;

/**
 * The left column of the table in the section, lower case; cells name several words with commas, codes or not.
 * @param {string} contributing
 * @returns {string[]}
 */
export function replacedWords(contributing) {
  const section = /^## Words\n([\s\S]*?)(?=^## |(?![\s\S]))/m.exec(contributing)?.[1] ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  return rows
    .slice(2)
    .flatMap((row) => (row.split("|")[1] ?? "").split(","))
    .map((cell) =>
      cell
        .replaceAll(/[`"*]|\(.*?\)/g, "")
        .trim()
        .toLowerCase(),
    )
    .filter((word) => word !== "");
}

/**
 * One pattern for all of the words: as a word of its own, or as one of a name in camelCase, snake_case or kebab-case.
 * @param {readonly string[]} words
 */
export function wordsPattern(words) {
  const alternatives = words.map((word) => {
    const parts = word.split(/[\s-]+/).map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const joined = parts.map((part, index) =>
      index === 0 ? part : `${part.slice(0, 1).toUpperCase()}${part.slice(1)}`,
    );
    const [first = ""] = joined;
    const capital = `${first.slice(0, 1).toUpperCase()}${first.slice(1)}`;
    const rest = joined.slice(1).join("");
    const spaced = parts
      .map((part) => `[${part.slice(0, 1).toUpperCase()}${part.slice(0, 1)}]${part.slice(1)}`)
      .join("[\\s_-]");
    return [
      // A word of the text or of a name with hyphens, and the first of a name in camelCase.
      `(?<![A-Za-z])(?:${spaced}|${first}${rest})(?![a-z])`,
      // A later one of a name in camelCase.
      `(?<=[a-z0-9])${capital}${rest}(?![a-z])`,
      `(?<![A-Za-z])${parts.map((part) => part.toUpperCase()).join("[\\s_-]")}(?![A-Za-z])`,
    ].join("|");
  });
  return new RegExp(alternatives.join("|"), "g");
}

/**
 * @param {string} path relative to the repository
 * @param {string} text
 * @param {RegExp} pattern
 * @returns {string[]} one line for each finding, as `path:line: what`
 */
export function findings(path, text, pattern) {
  const found = [...path.matchAll(pattern)].map(([word]) => `${path}: "${word}" in the name of the file`);
  text.split("\n").forEach((line, index) => {
    const place = `${path}:${index + 1}`;
    for (const [word] of line.matchAll(pattern)) found.push(`${place}: "${word}"`);
    if (!path.endsWith(".md")) return;
    if (!line.startsWith("|")) {
      if (line.length > MAX_LINE && !/^\S+$/.test(line.trim()))
        found.push(`${place}: ${line.length} characters`);
      return;
    }
    for (const cell of line.split(/(?<!\\)\|/)) {
      if (cell.trim().length > MAX_CELL) found.push(`${place}: a cell of ${cell.trim().length} characters`);
    }
  });
  return found;
}

function main() {
  const words = replacedWords(readFileSync(join(repositoryRoot, "CONTRIBUTING.md"), "utf8"));
  const pattern = words.length === 0 ? /(?!)/g : wordsPattern(words);
  const none = /(?!)/g;
  const files = [...folders.flatMap((folder) => filesBelow(repositoryRoot, folder)), ...documents];
  const found = files
    .filter((path) => !exempt.test(path))
    .flatMap((path) => findings(path, readFileSync(join(repositoryRoot, path), "utf8"), pattern));
  // These speak about the words, or about what was.
  for (const path of ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "RELEASING.md"])
    found.push(...findings(path, readFileSync(join(repositoryRoot, path), "utf8"), none));
  if (found.length > 0) process.stderr.write(`${found.join("\n")}\n${found.length} findings\n`);
  process.exitCode = found.length === 0 ? 0 : 1;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) main();
