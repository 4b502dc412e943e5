/**
 * docs/play/play-podman.md: the fields of the documentation of `podman kube play`, and what play does with each, which
 * is found out by reading a manifest that has it.
 */
import { readWorkloads } from "../../src/play/manifests/read-manifests.js";
import { messageOf } from "../../src/lib/errors.js";
import { type Json, pod, type Row, type Section, sections } from "./podman-fields.js";

/** So that there is something to play, and a secret for pulls. */
const beside: readonly Json[] = [
  { ...pod, metadata: { name: "z" } },
  {
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, type: "kubernetes.io/dockerconfigjson" },
    stringData: { ".dockerconfigjson": '{"auths":{}}' },
  },
];

/** Sets `a.0.b` in `object`. */
function set(object: Record<string, unknown>, path: string, value: unknown): void {
  const keys = path.split(".").filter((key) => key !== "");
  const last = keys.pop() ?? "";
  let place = object;
  for (const [index, key] of keys.entries()) {
    place[key] ??= (keys[index + 1] ?? last) === "0" ? [] : {};
    place = place[key] as Record<string, unknown>;
  }
  place[last] = value;
}

export interface Outcome {
  readonly play: "yes" | "passed over" | "refused";
  readonly reason: string;
}

/** What play says to the row's manifest. */
export async function outcomeOf(
  { object, place }: Section,
  [field, , value, others = {}]: Row,
): Promise<Outcome> {
  const manifest = structuredClone(object) as Record<string, unknown>;
  const full = (path: string): string => (path.startsWith("^") ? path.slice(1) : `${place}.${path}`);
  for (const [path, other] of Object.entries(others)) set(manifest, full(path), structuredClone(other));
  set(manifest, full(field), structuredClone(value));
  try {
    const text = [manifest, ...beside].map((one) => JSON.stringify(one)).join("\n---\n");
    const { notices } = await readWorkloads([{ name: "f.yaml", text }]);
    const [notice] = notices;
    return notice === undefined
      ? { play: "yes", reason: "" }
      : { play: "passed over", reason: notice.reason };
  } catch (error) {
    const [, line = ""] = messageOf(error).split("\n");
    return { play: "refused", reason: line.trim().replace(/^.*?: [\w.[\]]+: /, "") };
  }
}

const introduction = `# play and podman kube play

What both do with the fields of podman's own table (\`docs/kubernetes_support.md\` of podman, commit
17601aa): "no" is not supported there, N/A cannot be on one node. \`play\` ignores no field silently: one that
has no meaning on one node is *passed over* with a line that says so (an error with \`--strict\`), any other one
that is not honoured is *refused* before anything starts.

The column \`play\` is what the program answers to a manifest with the field: scripts/generate-podman-table.mjs.
Kinds that podman does not read, and play does, are in [play.md](play.md).
`;

export async function renderPodmanTable(): Promise<string> {
  const parts = [introduction];
  for (const section of sections) {
    const rows: string[] = [];
    for (const row of section.rows) {
      const { play, reason } = await outcomeOf(section, row);
      rows.push(`| ${row[0].replaceAll(".0.", ".")} | ${row[1]} | ${play} | ${reason} |`);
    }
    parts.push(
      [
        "",
        `## ${section.title}`,
        "",
        "| field | podman | play | reason |",
        "| --- | --- | --- | --- |",
        ...rows,
        "",
      ].join("\n"),
    );
  }
  return parts.join("");
}
