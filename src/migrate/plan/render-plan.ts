/** The output of `migrate plan`: `patch -p1 -d /` reads it as it is, and skips all but the diff. Pure. */
import { clean } from "../judge/render-page.js";
import { targetNames } from "../kubelet/target.js";
import { applyDiff, type MigrationPlan } from "./make-plan.js";
import { unifiedDiff } from "./unified-diff.js";

/** `undo`: the files are written, and this command takes them back. */
export function renderPlan(plan: MigrationPlan, { undo }: { readonly undo?: string } = {}): string {
  const { node, from, to, edits, commands, notUnderstood, notes } = plan;
  const name = (runtime: MigrationPlan["from"]): string =>
    runtime === "unknown" ? "an unknown runtime" : targetNames[runtime];
  const way = from === to ? `at ${name(to)} already` : `from ${name(from)} to ${name(to)}`;
  const lines = [`# Node ${clean(node)}: ${way}.`];
  if (edits.length === 0 && notUnderstood.length === 0) lines.push("# No file has to change.");
  for (const { place, text } of notUnderstood) lines.push(`# NOT CHANGED ${clean(place)}: ${clean(text)}`);
  for (const note of notes) lines.push(`# ${clean(note)}`);
  const diff = unifiedDiff(edits);
  const done = undo === undefined ? [] : ["", `# Written. To undo: ${undo}`];
  const steps = commands
    .filter((command) => undo === undefined || command !== applyDiff)
    .map((command, index) => `# ${index + 1}. ${clean(command)}`);
  const then = steps.length === 0 ? [] : ["", "# In this order:", ...steps];
  return `${[...lines, ""].join("\n")}\n${diff}${[...done, ...then].join("\n")}\n`;
}

/** Shape of `--output json`: keys are added, never renamed, within one version. */
export function renderPlanJson({ notUnderstood, ...plan }: MigrationPlan): string {
  const value = {
    format: "dockershim-migrate-plan",
    version: 1,
    node: plan.node,
    from: plan.from,
    to: plan.to,
    files: plan.edits.map(({ path, before, after }) => ({
      path,
      change: before === undefined ? "create" : after === undefined ? "remove" : "edit",
    })),
    diff: unifiedDiff(plan.edits),
    commands: plan.commands,
    notUnderstood,
    notes: plan.notes,
  };
  return `${JSON.stringify(value, undefined, 2)}\n`;
}
