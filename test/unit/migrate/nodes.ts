/**
 * Nodes as directories of files, from test/golden/nodes: `=== PATH` begins a file, `=== PATH -> TARGET` is a link,
 * `### COMMAND` begins what the command says of the node. `like:` names the nodes whose files it has besides.
 */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export type NodeTree = Readonly<Record<string, string | { readonly linkTo: string }>>;

export interface GoldenNode {
  readonly name: string;
  /** Version of the kubelet. */
  readonly version: string;
  readonly tree: NodeTree;
  readonly says: readonly { readonly command: string; readonly text: string }[];
}

const directory = new URL("../../golden/nodes/", import.meta.url);

export function goldenNode(name: string): GoldenNode {
  const [head = "", ...sections] = readFileSync(new URL(`${name}.txt`, directory), "utf8").split(
    /^(?==== |### )/m,
  );
  const field = (key: string): string => new RegExp(`^${key}: (.*)$`, "m").exec(head)?.[1] ?? "";
  const liked = field("like").split(" ").filter(Boolean);
  const tree = Object.assign({}, ...liked.map((one) => goldenNode(one).tree)) as Record<
    string,
    NodeTree[string]
  >;
  const says: { command: string; text: string }[] = [];
  for (const section of sections) {
    const [, mark, title = "", text = ""] = /^(===|###) (.*)\n([^]*)$/.exec(section) ?? [];
    const [path = "", linkTo] = title.split(" -> ");
    if (mark === "###") says.push({ command: title, text });
    else if (path.endsWith(" (absent)")) Reflect.deleteProperty(tree, path.replace(/ \(absent\)$/, ""));
    else tree[path] = linkTo === undefined ? text : { linkTo };
  }
  return { name, version: field("kubelet"), tree, says };
}

export const goldenNodes: readonly GoldenNode[] = readdirSync(directory)
  .map((file) => file.replace(/\.txt$/, ""))
  .sort()
  .map(goldenNode);

/** Writes the tree below a new directory, which goes away at the end of the test. */
export function makeNode(t: { after(undo: () => void): void }, tree: NodeTree): string {
  const root = mkdtempSync(join(tmpdir(), "dockershim-node-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, content] of Object.entries(tree)) {
    const local = join(root, path);
    mkdirSync(dirname(local), { recursive: true });
    if (typeof content === "string") writeFileSync(local, content);
    else symlinkSync(content.linkTo, local);
  }
  chmodSync(root, 0o755);
  return root;
}

const treeOf = (name: string): NodeTree => goldenNode(name).tree;

export const kubeadm123 = treeOf("kubeadm-1.23");
export const kubenet123 = treeOf("kubenet-1.23");
export const noop123 = treeOf("no-network-1.23");
export const kubeadm130 = treeOf("kubeadm-1.30");
export const kubeadm134 = treeOf("kubeadm-1.34");
export const plainUnits = treeOf("flags-in-unit-1.22");
export const ours = treeOf("dockershim-1.30");
