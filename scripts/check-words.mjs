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

const folders = ["src", "checkpoints", "test", "docs", "native", "scripts"];
const documents = ["README.md", "ARCHITECTURE.md"];
/** The words of others: recorded data, and names that Kubernetes or Docker gave. */
const exempt = /^(test\/golden\/|native\/bin\/|src\/domain\/cri\.ts$)/;
/** A metric, whose name dashboards use. */
const exemptNames = /dockershim_read_model_unread/g;
const MAX_LINE = 110;
const MAX_CELL = 160;

/**
 * The left column of the table in the section, lower case; a cell may name several, with commas.
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
  const capital = (/** @type {string} */ text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
  const eitherCase = (/** @type {string} */ text) =>
    `[${text.slice(0, 1).toUpperCase()}${text.slice(0, 1)}]${text.slice(1)}`;
  const alternatives = words.flatMap((word) => {
    const [first = "", ...others] = word.split(/[\s-]+/);
    const rest = others.map(capital).join("");
    const spaced = [first, ...others].map(eitherCase).join("[\\s_-]");
    const shouted = word.toUpperCase().replaceAll(/[\s-]+/g, "[\\s_-]");
    return [
      // In a text, in a name with hyphens, and at the start of a name in camelCase.
      `(?<![A-Za-z])(?:${spaced}|${eitherCase(first)}${rest})(?![a-z])`,
      // Further on in a name in camelCase.
      `(?<=[a-z0-9])${capital(first)}${rest}(?![a-z])`,
      `(?<![A-Za-z])${shouted}(?![A-Za-z])`,
    ];
  });
  return new RegExp(alternatives.length === 0 ? "(?!)" : alternatives.join("|"), "g");
}

/**
 * Those whose letters a text has anywhere: few, and a pattern of few words is ten times as fast as one of all.
 * @param {readonly string[]} words lower case
 * @param {string} text
 */
export function wordsWithin(words, text) {
  const lowerCase = text.toLowerCase();
  return words.filter((word) => word.split(/[\s-]+/).every((part) => lowerCase.includes(part)));
}

/**
 * @param {string} path relative to the repository
 * @param {string} text
 * @param {RegExp} pattern
 * @returns {string[]} one line for each finding, as `path:line: what`
 */
export function findings(path, text, pattern) {
  const found = [...path.matchAll(pattern)].map(([word]) => `${path}: "${word}" in the name of the file`);
  let isCode = false;
  text.split("\n").forEach((line, index) => {
    const place = `${path}:${index + 1}`;
    for (const [word] of line.replaceAll(exemptNames, "").matchAll(pattern))
      found.push(`${place}: "${word}"`);
    if (!path.endsWith(".md")) return;
    // Commands and output cannot be wrapped.
    if (line.trimStart().startsWith("```")) isCode = !isCode;
    if (isCode) return;
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
  const files = [...folders.flatMap((folder) => filesBelow(repositoryRoot, folder)), ...documents];
  const found = files
    .filter((path) => !exempt.test(path))
    .flatMap((path) => {
      const text = readFileSync(join(repositoryRoot, path), "utf8");
      return findings(path, text, wordsPattern(wordsWithin(words, `${path}\n${text}`)));
    });
  // These speak about the words, or about what was.
  for (const path of ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "RELEASING.md"])
    found.push(...findings(path, readFileSync(join(repositoryRoot, path), "utf8"), wordsPattern([])));
  if (found.length > 0) process.stderr.write(`${found.join("\n")}\n${found.length} findings\n`);
  process.exitCode = found.length === 0 ? 0 : 1;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) main();
