/** AppArmor: from the CRI's two fields to Docker's security option. */
import type { SecurityProfile } from "../../domain/cri.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { preconditionField, unsupportedField } from "../../domain/field-errors.js";
import { fromMessage, localhostPrefix, type ProfileChoice } from "./security-options.js";

/** The message wins over the older string; nothing, or `runtime/default`, is the engine's default profile. */
export function chooseAppArmor(
  request: { readonly apparmor: SecurityProfile | null; readonly apparmor_profile?: string },
  field: string,
): ProfileChoice {
  if (request.apparmor !== null) {
    const choice = fromMessage(request.apparmor, `${field}.apparmor`);
    return choice.kind === "localhost" ? { ...choice, reference: bareName(choice.reference) } : choice;
  }
  const text = request.apparmor_profile ?? "";
  if (text === "" || text === "runtime/default") return { kind: "default" };
  if (text === "unconfined") return { kind: "unconfined" };
  return { kind: "localhost", reference: bareName(text), field: `${field}.apparmor_profile` };
}

function bareName(reference: string): string {
  return reference.startsWith(localhostPrefix) ? reference.slice(localhostPrefix.length) : reference;
}

/**
 * Docker's option, undefined for the engine's default. A profile that is not loaded is refused here, because
 * Docker notices only at start; `loaded` is undefined when the node's profiles cannot be read. An engine
 * without AppArmor would ignore the option, so a named profile is refused there.
 */
export function appArmorOption(
  choice: ProfileChoice,
  facts: NodeFacts,
  loaded: ReadonlySet<string> | undefined,
): string | undefined {
  if (choice.kind === "default") return undefined;
  if (choice.kind === "unconfined") return "apparmor=unconfined";
  if (!facts.security.apparmor)
    throw unsupportedField(choice.field, "the engine runs without AppArmor", choice.reference);
  if (loaded?.has(choice.reference) === false)
    throw preconditionField(choice.field, "no such AppArmor profile is loaded on the node", choice.reference);
  return `apparmor=${choice.reference}`;
}
