/** Every RPC and every request field of the CRI is either acted upon, or the docs say why not. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { rpcs as table } from "../../../src/shim/cri/rpcs.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { fieldReads } from "./field-reads.js";
import { allRpcs, fieldsOf, repository } from "./request-messages.js";

/** The cells of all table rows of a document, without code marks. */
function rows(document: string): readonly (readonly string[])[] {
  const text = readFileSync(join(repository, "docs/understand", document), "utf8");
  const lines = text.split("\n").filter((line) => line.startsWith("|") && !/^\|[ -]*\|/.test(line));
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.replaceAll("`", "").trim()),
  );
}

const built = new Set(Object.keys(table));

describe("the contract of the CRI", () => {
  const rpcs = allRpcs();
  const documented = new Map(
    rows("rpc-support.md").flatMap(([names = "", state = "", remark = ""]) =>
      names.split(", ").map((name) => [name.replace("²", ""), { state, remark }] as const),
    ),
  );

  for (const { name } of rpcs) {
    test(`${name} is built, or the docs say that it is not and why`, () => {
      const row = documented.get(name);
      assert.ok(row, `docs/understand/rpc-support.md has no row for ${name}`);
      if (built.has(name)) assert.match(row.state, /^(yes|partly)$/);
      else assert.ok(row.state === "not built yet" || (row.state === "no" && row.remark !== ""), row.state);
    });
  }

  test("nothing is built that the contract does not have", () => {
    const names = new Set(rpcs.map(({ name }) => name));
    assert.deepEqual(
      [...built].filter((name) => !names.has(name)),
      [],
    );
  });

  test("each field of a request is read by the program, or excused in docs/understand/request-fields.md, not both", () => {
    const fields = fieldsOf(rpcs.filter(({ name }) => built.has(name)).map(({ request }) => request));
    assert.ok(fields.size > 150, String(fields.size));
    const reads = fieldReads();
    const excuses = rows("request-fields.md").filter(
      ([, reason = ""]) => reason !== "" && reason !== "reason",
    );
    const isExcused = (field: string): boolean =>
      excuses.some(
        ([name = ""]) => name === field || (name.endsWith(".*") && field.startsWith(name.slice(0, -1))),
      );
    assert.deepEqual(
      [...fields.keys()].filter((field) => !reads.has(field) && !isExcused(field)),
      [],
      "fields that no code reads and no row excuses",
    );
    assert.deepEqual(
      [...fields.keys()].filter((field) => reads.has(field) && isExcused(field)),
      [],
      "fields that are excused although code reads them",
    );
    assert.deepEqual(
      excuses.filter(
        ([name = ""]) =>
          ![...fields.keys()].some((field) => field === name || field.startsWith(name.replace(/\*$/, ""))),
      ),
      [],
      "rows for fields that the contract does not have",
    );
  });
});

describe("fieldReads()", () => {
  test("finds reads of every form, and does not take making a message, or another type's field, for one", async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, "sample.ts");
    const cri = join(repository, "src", "domain", "cri.js");
    writeFileSync(
      file,
      `import type { DNSConfig, ImageSpec, KeyValue, Mount, PodSandboxConfig, StatusRequest } from ${JSON.stringify(cri)};
      export const access = (mount: Mount) => mount.container_path;
      export const optional = (mount?: Pick<Mount, "host_path">) => mount?.host_path;
      export const binding = ({ readonly: only }: Mount) => only;
      export const parameter = ({ image: { user_specified_image } }: { image: ImageSpec }) => user_specified_image;
      export const names = (dns: DNSConfig) => (["servers", "searches"] as const).map((name) => dns[name]);
      export const made = (): StatusRequest => ({ verbose: true });
      export const other = (entry: { key: string }) => entry.key;
      const handed = (of: { readonly hostname: string }) => of.hostname;
      export const hand = (config: PodSandboxConfig) => handed(config);
      const ignored = (of: { readonly log_directory: string }) => of;
      export const ignore = (config: PodSandboxConfig) => ignored(config);
      export const spread = (entry: KeyValue) => ({ ...entry });`,
    );
    assert.deepEqual([...fieldReads([file])].sort(), [
      "DNSConfig.searches",
      "DNSConfig.servers",
      "ImageSpec.user_specified_image",
      "Mount.container_path",
      "Mount.host_path",
      "Mount.readonly",
      "PodSandboxConfig.hostname",
    ]);
  });
});
