import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";

interface Workload {
  readonly path: string;
  readonly kind: string;
  readonly result: "ready" | "not ready" | "refused";
  readonly reason?: string;
  readonly made?: readonly string[];
}

interface Repository {
  readonly name: string;
  readonly commit: string;
  readonly workloads: readonly Workload[];
}

const root = new URL("../../../", import.meta.url);
const data = await readFile(new URL("test/golden/play-workloads.json", root), "utf8");
const { repositories } = JSON.parse(data) as { readonly repositories: readonly Repository[] };
const lines = (await readFile(new URL("docs/play/play-workloads.md", root), "utf8")).split("\n");
const all = repositories.flatMap(({ workloads }) => workloads);

function counts(what: string, workloads: readonly Workload[]): string {
  const accepted = workloads.filter(({ result }) => result !== "refused");
  const ready = workloads.filter(({ result }) => result === "ready");
  return `| ${what} | ${workloads.length} | ${accepted.length} | ${ready.length} |`;
}

describe("docs/play/play-workloads.md", () => {
  test("has the counts of test/golden/play-workloads.json, by repository and kind", () => {
    const wanted = [
      ...repositories.map(({ name, commit, workloads }) =>
        counts(`[${name}](https://github.com/${name}/tree/${commit})`, workloads),
      ),
      counts("all", all),
      ...[...new Set(all.map(({ kind }) => kind))].map((kind) =>
        counts(
          kind,
          all.filter((workload) => workload.kind === kind),
        ),
      ),
    ];
    const found = lines.filter((line) => /^\| .* \| \d+ \| \d+ \| \d+ \|$/.test(line)).sort();
    assert.deepEqual(found, wanted.sort());
    const [, accepted, ready] = counts("all", all).match(/\d+/g) ?? [];
    assert.match(
      lines.join(" "),
      new RegExp(`Of ${all.length} workloads .* accepts ${accepted}, and ${ready} of`),
    );
  });

  test("names each workload that did not become ready, and the objects that were made", () => {
    const wanted = [
      ...all.flatMap(({ path, kind, result, reason = "" }) =>
        result === "ready" ? [] : [`| \`${path}\` | ${kind} | ${result} | ${reason} |`],
      ),
      ...all.flatMap(({ path, made = [] }) =>
        made.length === 0 ? [] : [`| \`${path}\` | ${made.join(", ")} |`],
      ),
    ];
    assert.deepEqual(lines.filter((line) => line.startsWith("| `")).sort(), wanted.sort());
  });
});
