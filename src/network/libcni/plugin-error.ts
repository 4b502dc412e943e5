/** What a plugin's failure means. */
import { messageOf, ShimError, type ErrorKind } from "../../lib/errors.js";
import {
  integerOf,
  isObject,
  parseJson,
  stringAt,
  type Json,
  type JsonObject,
} from "../../lib/json/exact-json.js";
import type { ProgramExit } from "../../shim/native/run-program.js";

/** Error codes of the specification that matter to the runtime. */
export const errorCodes = {
  unknownContainer: 3,
  tryAgainLater: 11,
  notAvailable: 50,
  limitedConnectivity: 51,
} as const;

const longestQuote = 2000;

/** The code of the plugin's own error, undefined for all other failures. */
export function pluginErrorCode(error: unknown): number | undefined {
  const code = error instanceof ShimError ? error.fields["cniCode"] : undefined;
  return typeof code === "number" ? code : undefined;
}

/** The error of a plugin whose exit code is not 0. Its stderr is used only when stdout has no error. */
export function failureOf(exit: ProgramExit): ShimError {
  const status = statusOf(exit);
  const stderr = exit.stderr.trim();
  if (exit.stdout.trim() === "") {
    const said = stderr === "" ? " with no error message" : `: ${quote(stderr)}`;
    return new ShimError("unknown", `netplugin failed${said}: ${status}`);
  }
  let reply: Json;
  try {
    reply = parseJson(exit.stdout);
    if (!isObject(reply)) throw new Error("not a JSON object");
  } catch (error) {
    const text = `netplugin failed but error parsing its diagnostic message ${quote(exit.stdout)}`;
    return new ShimError("unknown", `${text}: ${messageOf(error)}: ${status}`);
  }
  return errorOfReply(reply, stderr === "" ? status : `${status}, stderr ${quote(stderr)}`);
}

function errorOfReply(reply: JsonObject, status: string): ShimError {
  const code = integerOf(reply["code"]);
  const message = stringAt(reply, "msg") ?? "";
  const details = stringAt(reply, "details") ?? "";
  const texts = [message, details].filter((text) => text !== "");
  if (texts.length === 0) texts.push(`the plugin gave no reason (${status})`);
  const suffix = code === undefined || code === 0 ? "" : ` (code ${code})`;
  const fields = {
    ...(code === undefined ? {} : { cniCode: code }),
    cniMessage: message,
    ...(details === "" ? {} : { cniDetails: details }),
  };
  return new ShimError(kindOf(code), texts.join("; ") + suffix, fields);
}

function kindOf(code: number | undefined): ErrorKind {
  switch (code) {
    case errorCodes.tryAgainLater:
    case errorCodes.notAvailable:
    case errorCodes.limitedConnectivity:
      return "unavailable";
    default:
      return "unknown";
  }
}

function statusOf({ exitCode, signalName }: ProgramExit): string {
  return exitCode === undefined ? `signal: ${signalName ?? "unknown"}` : `exit status ${exitCode}`;
}

function quote(text: string): string {
  return JSON.stringify(text.length <= longestQuote ? text : `${text.slice(0, longestQuote)}...`);
}
