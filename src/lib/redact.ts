/** Takes secrets out of texts before they leave the node. Pure. */
export const removed = "(removed)";

/** Parts of names whose values are secrets. */
const secretName =
  /pass(?:word|wd|phrase)?|secret|token|credential|authori[sz]ation|api[-_]?key|private[-_]?key|access[-_]?key|cookie|bearer|^auths?$|[-_]auth$|keydata|key[-_]data|pre[-_]?shared|(?:^|[-_])(?:pwd|psk)$/i;
/** Members that tenants and operators may put anything into. */
const foreignContent = /^(?:annotations|env|environment|environ|args|command|cmd|entrypoint|stdin|body)$/i;

/** The text without what looks like a secret; JSON, also one object a line as in logs, by its members. */
export function redact(text: string): string {
  const whole = parseJson(text);
  if (whole !== undefined) return `${JSON.stringify(redactValue(whole), undefined, 2)}\n`;
  return text
    .replaceAll(privateKey, removed)
    .split("\n")
    .map((line) => {
      const object = line.startsWith("{") ? parseJson(line) : undefined;
      return object === undefined ? redactText(line) : JSON.stringify(redactValue(object));
    })
    .join("\n");
}

/** The value without members that are secret by their names, and without secrets in its texts. */
export function redactValue(value: unknown): unknown {
  if (typeof value === "string") return redactText(value);
  if (Array.isArray(value)) return value.map(redactValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]: readonly [string, unknown]) => {
      if (secretName.test(name) && typeof member !== "boolean") return [name, removed];
      return [name, foreignContent.test(name) ? withoutContent(member) : redactValue(member)];
    }),
  );
}

/** How much was there stays to be seen. */
function withoutContent(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(() => removed);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.keys(value).map((name) => [name, removed]));
  return value === null || value === undefined ? value : removed;
}

/** Undefined for what is no JSON object or list. */
function parseJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Over several lines; in texts of JSON with escaped ends of lines. */
const privateKey = /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g;

/** A quote of JSON, which may be text in other JSON. */
const quote = String.raw`\\{0,8}["']`;
/** Of each repetition the number is bounded, or nothing before it repeats: tenants size what is logged. */
const rules: readonly (readonly [RegExp, string])[] = [
  [privateKey, removed],
  // Objects and lists of JSON in a line, to the end of it, as of the requests that a debugging engine logs.
  [
    new RegExp(
      `(${quote}(?:annotations|env|environment|args|command|cmd|entrypoint)${quote}:)\\s*[[{"\\\\].*`,
      "gi",
    ),
    `$1 ${removed}`,
  ],
  // The user of an address, as in https://user:password@host.
  [/(:\/\/)[^/\s"]+@/g, `$1${removed}@`],
  [new RegExp(`(_proxy(?:${quote})?\\s*[:=]\\s*(?:${quote})?)[^/\\s"@]{1,1024}@`, "gi"), `$1${removed}@`],
  // The same in front of a registry or a proxy without a scheme; a digest is no user.
  [/(?<![\w.:@/-])[\w.-]{1,64}:[^\s"'\\@/]{1,1024}@(?=[\w[])(?!sha\d+:)/g, `${removed}@`],
  // A header, whatever its scheme.
  [new RegExp(`(\\b(?:authorization|(?:set-)?cookie)(?:${quote})?\\s*[:=]\\s*).*`, "gi"), `$1${removed}`],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{4,}/gi, `$1 ${removed}`],
  // JSON Web Tokens, as of service accounts.
  [/(?<![\w-])eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, removed],
  // Of an address that its signature makes valid, as of layers in object stores.
  [/([?&](?:[\w-]{1,64}-)?sig(?:nature)?=)[^&\s"'\\]+/gi, `$1${removed}`],
  // name=value, name: value and --name value, with a name that says what it is.
  [
    new RegExp(
      `((?:(?:password|passwd|passphrase|secret|token|credential|authorization|api[-_]?key|private[-_]?key|access[-_]?key|pre[-_]?shared[-_]?key|key-data)[\\w.-]{0,64}|\\bauth|(?<![a-z])(?:pass|pwd|psk))(?:${quote})?\\s*[:=]\\s*)` +
        String.raw`("(?:[^"\\]|\\.)*"|'[^']*'|\\{1,8}"[^\n]*?\\{1,8}"|[^\s,;&}]+)`,
      "gi",
    ),
    `$1${removed}`,
  ],
  [/(\s--?[\w-]*(?:password|passwd|secret|token|credential|key)\s+)(?!-)\S+/gi, `$1${removed}`],
];

export function redactText(text: string): string {
  let result = text;
  for (const [pattern, replacement] of rules) result = result.replaceAll(pattern, replacement);
  return result;
}
