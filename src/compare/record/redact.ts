/** Takes secrets out of messages of the CRI. What is needed to make the pods again stays. */
import { createHmac, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { KnownValues } from "./known-values.js";

export interface RedactorOptions {
  /** Keeps what ExecSync printed. */
  readonly withOutput?: boolean;
  /** Keeps members that are null, 0, false or an empty list. */
  readonly keepDefaults?: boolean;
}

type Message = Readonly<Record<string, unknown>>;

/** Names of environment variables, annotations, flags and keys of JSON that hold secrets. */
const secretName =
  /token|passw|passphrase|pass(?:$|[-_.])|pwd|secret|credential|api[-_.]?key|access[-_.]?key|private|auth|cookie|session|signature|\bsig$|dsn|\bkeys?$|[-_.]key$|dockercfg|dockerconfig|connection[-_.]?string/i;

/** Annotations that hold whole manifests, with the environment of the containers. */
const manifestName = /last-applied-configuration$|\/applied$|\/original$/;
const manifestValue = /^\s*[{[][\s\S]*"(?:spec|env|data|stringData|auths)"\s*:/;
/** A manifest in a form of its own, or a blob. */
const largestAnnotation = 4096;

/** Secrets inside texts: group 1 is kept, the rest is the secret. Limits keep the time linear. */
const secretTexts: readonly RegExp[] = [
  // Keys and certificates.
  /()-----BEGIN [\s\S]*?(?:-----END [A-Z ]*-----|$)/g,
  // https://user:password@host; a password may contain "@".
  /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/"']+@/gi,
  // Authorization: Token x
  /(\bauthorization\\?["']?\s{0,20}[:=]\s{0,20}\\?["']?)[^\s"'\\][^"'\\\r\n]*/gi,
  // Authorization: Bearer x
  /(\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}/gi,
  // JSON Web Tokens, and what common services hand out.
  /()\beyJ[\w-]{8,2000}\.[\w-]+(?:\.[\w-]*)?/g,
  /()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /()\b(?:gh[pousr]_|glpat-|xox[abprs]-|sk-|sk_live_|hvs\.)[\w-]{10,}/g,
];
/** NAME=value, --name=value, --name value, "name": "value", and the last with its quotes escaped; the name decides. */
const assignment =
  /([\w.-]{1,100}(?:\\{0,7}["'])?\s*(?:=|:)\s*|--?[\w.-]{1,100}\s+)("(?:[^"\\]|\\.)*"|'[^']*'|\\{1,7}["'][^"'\\]*|[^\s"',;&|)]+)/g;
/** curl -u user:secret */
const userFlag = /((?:^|\s)(?:-u|--user)[\s=]*[^\s:"']+:)([^\s"']+)/g;
/** Clients whose flag of one letter is a password: mysql -pSECRET, redis-cli -a SECRET. */
const clients = "(?:mysql\\w*|mariadb[\\w-]*|mongo\\w*|psql|sshpass|redis-cli|ldap\\w+|docker)";
const clientFlag = new RegExp(`(\\b${clients}\\b[^\\n;|&]{0,300}?\\s-[paw]\\s*)([^\\s-]\\S*)`, "g");
const clientName = new RegExp(`(?:^|/)${clients}$`);
/** What follows a name of a secret and is none: a path, a switch, a number of a user, a variable. */
const harmless =
  /^["']?(?:\/(?:etc|var|run|root|home|opt|usr|srv|mnt|tmp|certs?|secrets?|proc|dev|kubernetes|config)\b[\w./-]*|true|false|\d{1,5}(?::\d{1,5})?|\$\{?\w+\}?|\$\(\w+\))["']?$/;

/** Fields of messages whose texts may contain secrets by patterns, too. */
const textLists: ReadonlySet<string> = new Set(["command", "args", "cmd"]);
const texts: ReadonlySet<string> = new Set(["message", "reason"]);
/** Fields without which a pod cannot be made again or found: what they show is no secret. */
const kept: ReadonlySet<string> = new Set([
  ...["id", "pod_sandbox_id", "container_id", "container_ids", "target_id"],
  ...["name", "namespace", "uid", "hostname", "runtime_handler", "servers", "searches", "ip"],
  "run_as_username",
  ...["image", "image_ref", "image_id", "user_specified_image", "repo_tags", "repo_digests"],
  ...["container_path", "host_path", "version", "runtime_name", "runtime_version", "runtime_api_version"],
]);
/** Fields whose keys are data. */
const maps: ReadonlySet<string> = new Set([
  ...["annotations", "auth", "info", "labels", "label_selector", "options", "sysctls", "unified"],
]);
/** Labels that kubelets give. */
const keptLabel = /^io\.kubernetes\./;
/** Values of variables that say nothing, and are parts of many texts: common words, numbers, paths in lower case. */
const plain = new RegExp(
  `^(?:${[
    ...["auto|always|never|enabled|disabled|default|localhost|https?|json|text|utf-?8"],
    ...["trace|debug|info|warn|warning|error|production|staging|development|test"],
    ...["\\d{1,5}", "(?:/[a-z][a-z0-9._-]{0,40}){1,20}/?"],
  ].join("|")})$`,
);
/** Those that are no secret in `AUTH_ENABLED` and `TLS_KEY` either: switches and paths of files. */
const switched = /^(?:true|false|null|none)$/i;
const shortNumber = /^["']?\d{1,5}(?::\d{1,5})?["']?$/;
const maximumNumbers = 200_000;
const maximumMade = 10_000;

/** One per recording: equal secrets get equal numbers. */
export class Redactor {
  /** By digest, so that this program holds no more secrets than it must. */
  readonly #numbers = new Map<string, number>();
  readonly #key = randomBytes(32);
  #last = 0;
  /** Of variables: searched for in every text. */
  readonly #variables = new KnownValues();
  /** Of patterns, which may be mistaken: searched for in messages. */
  readonly #others = new KnownValues();
  /** Ids of containers whose variables are known. */
  readonly #made = new Set<string>();

  constructor(private readonly options: RedactorOptions = {}) {}

  /** Counts of what is remembered. */
  get sizes(): Readonly<Record<string, number>> {
    return { numbers: this.#numbers.size, known: this.#variables.size + this.#others.size };
  }

  /** The next `count` numbers may stand for other secrets already. */
  skipNumbers(count: number): void {
    this.#last += count;
  }

  /** The variables of this container were in a request. */
  addContainer(id: string): void {
    this.#made.add(id);
    dropOldest(this.#made, maximumMade);
  }

  /** The message in the form of recordings, without secrets: its own and those of messages before. */
  message(message: object): Record<string, unknown> {
    const variables = [...variablesOf(message)];
    const shown = variables.length === 0 ? "" : [...shownBy(message)].join("\n");
    for (const [name, value] of variables) {
      const [isSecret, text] = [secretName.test(name), value.trim()];
      if (isNoSecret(text) || (!isSecret && (isPlain(text) || shown.includes(text)))) continue;
      this.#variables.add(value);
    }
    return this.#message(message as Message);
  }

  /** The message of an error: secrets that requests contained are found again. */
  text(text: string): string {
    return this.#text(this.#others.replace(this.#replaced(text), (value) => this.#secret(value)));
  }

  #message(message: Message): Record<string, unknown> {
    const result: Record<string, unknown> = {};
    const lines = this.#commandLine(message);
    for (const [name, value] of Object.entries(message)) {
      const redacted = lines[name] ?? this.#field(name, value);
      if (this.options.keepDefaults === true || !isDefault(redacted)) result[name] = redacted;
    }
    return result;
  }

  /** One command line: the program may be in the one list, and its flag or the secret in the other. */
  #commandLine({
    command,
    args,
    cmd,
    container_id: id,
  }: Message): Readonly<Record<string, readonly string[]>> {
    // Of a container from before, whose variables may be in its commands.
    if (Array.isArray(cmd) && typeof id === "string" && !this.#made.has(id))
      return {
        cmd: cmd.map(String).map((word, index) => (index === 0 ? this.#replaced(word) : this.#found(word))),
      };
    if (!Array.isArray(command) || !Array.isArray(args)) return {};
    const line = this.#arguments([...(command as unknown[]), ...(args as unknown[])]);
    return { command: line.slice(0, command.length), args: line.slice(command.length) };
  }

  #field(name: string, value: unknown): unknown {
    if (Buffer.isBuffer(value)) {
      const isOutput = name === "stdout" || name === "stderr";
      if (!isOutput || this.options.withOutput !== true) return { omitted: value.length };
      const text = value.toString();
      const replaced = this.#replaced(text);
      // Output that is no text stays as it is.
      return { base64: (replaced === text ? value : Buffer.from(replaced)).toString("base64") };
    }
    if (typeof value === "string") {
      if (name === "credential_spec") return this.#secret(value);
      if (name === "url") return this.#url(value);
      if (texts.has(name)) return this.text(value);
      // 64-bit numbers are texts, too.
      return kept.has(name) || /^-?\d+$/.test(value) ? value : this.#replaced(value);
    }
    if (Array.isArray(value)) {
      if (name === "envs") return value.map((entry) => this.#environment(entry));
      if (textLists.has(name)) return this.#arguments(value);
      return value.map((entry) => this.#field(name, entry));
    }
    if (!isMessage(value)) return value;
    if (!maps.has(name) || !isTextMap(value)) return this.#message(value);
    return mapValues(value, (text, key) => {
      // The verbose information of statuses is JSON with whole configurations, environment included.
      if (name === "info") return this.#secret(text);
      if (name === "auth" && key !== "server_address") return this.#found(text);
      if (name === "annotations") return this.#annotation(key, text);
      return keptLabel.test(key) ? text : this.#replaced(text);
    });
  }

  #environment(entry: unknown): unknown {
    return isMessage(entry) ? { ...entry, value: this.#secret(valueOf(entry)) } : entry;
  }

  /** Without the values of variables. */
  #replaced(text: string): string {
    return this.#variables.replace(text, (value) => this.#secret(value));
  }

  #annotation(key: string, value: string): string {
    if (secretName.test(key)) return this.#found(value);
    const isManifest = manifestName.test(key) || manifestValue.test(value);
    return isManifest || value.length > largestAnnotation
      ? this.#secret(value)
      : this.#text(this.#replaced(value));
  }

  /** The argument after `--password` is one, too. */
  #arguments(list: readonly unknown[]): string[] {
    const isClient = clientName.test(String(list[0]));
    let follows = false;
    let previous = "";
    return list.map((entry) => {
      const text = this.#replaced(String(entry));
      const joined = /^(?:-u|--user)$/.test(previous) ? this.#text(`-u ${text}`).slice(3) : undefined;
      previous = text;
      const isSecret = follows && !text.startsWith("-") && !harmless.test(text);
      follows = (/^--?[\w.-]+$/.test(text) && secretName.test(text)) || (isClient && /^-[paw]$/.test(text));
      if (isSecret) return this.#found(text);
      if (joined !== undefined) return joined;
      if (isClient && /^-[paw]./.test(text)) return text.slice(0, 2) + this.#found(text.slice(2));
      return this.#text(text);
    });
  }

  /** URL of a streaming server: its path is a token. */
  #url(url: string): string {
    const origin = /^[a-z]+:\/\/(?:[^/@]*@)?([^/?#]*)/i.exec(url);
    if (origin === null) return this.#secret(url);
    const scheme = url.slice(0, url.indexOf("://"));
    return `${scheme}://${origin[1] ?? ""}/${this.#secret(url.slice(origin[0].length))}`;
  }

  #text(text: string): string {
    let redacted = text;
    for (const pattern of secretTexts)
      redacted = redacted.replace(pattern, (match: string, kept: string) => {
        const tail = match.endsWith("@") ? "@" : "";
        return kept + this.#found(match.slice(kept.length, match.length - tail.length)) + tail;
      });
    const found = (match: string, kept: string, value: string): string =>
      value.includes("redacted:") || harmless.test(value) ? match : kept + this.#found(value);
    // The value of another flag may be a whole command: sh -c "app --password x".
    const assigned = (all: string): string =>
      all.replace(assignment, (match: string, name: string, value: string) =>
        secretName.test(name.replace(/[^\w.-]+$/, "")) ? found(match, name, value) : name + assigned(value),
      );
    return assigned(redacted).replace(userFlag, found).replace(clientFlag, found);
  }

  /** A secret by its place or form alone. */
  #found(value: string): string {
    // A part of what stands for a secret already.
    if (/^redacted(?::\d+)?$/.test(value)) return value;
    this.#others.add(value);
    return this.#secret(value);
  }

  #secret(value: string): string {
    if (value === "") return "";
    const digest = createHmac("sha256", this.#key).update(value).digest("base64");
    let number = this.#numbers.get(digest);
    if (number === undefined) {
      number = ++this.#last;
      this.#numbers.set(digest, number);
      dropOldest(this.#numbers, maximumNumbers);
    }
    return `redacted:${String(number)}`;
  }
}

/** Names and values of the environments in a message. */
function* variablesOf(value: unknown): Generator<readonly [name: string, value: string]> {
  for (const [key, member] of membersOf(value)) {
    if (key !== "envs" || !Array.isArray(member)) yield* variablesOf(member);
    else for (const entry of member.filter(isMessage)) yield [String(entry["key"]), valueOf(entry)];
  }
}

/** What stays of the message, and its working directory. */
function* shownBy(value: unknown): Generator<string> {
  for (const [key, member] of membersOf(value)) {
    const isShown = kept.has(key) || keptLabel.test(key) || key === "working_dir";
    if (isShown && typeof member === "string") yield member;
    if (isShown && Array.isArray(member)) yield member.join("\n");
    if (maps.has(key) && isMessage(member)) yield Object.keys(member).join("\n");
    yield* shownBy(member);
  }
}

function membersOf(value: unknown): readonly (readonly [key: string, value: unknown])[] {
  return typeof value !== "object" || value === null || Buffer.isBuffer(value) ? [] : Object.entries(value);
}

function valueOf({ value }: Message): string {
  return Buffer.isBuffer(value) ? value.toString("utf8") : typeof value === "string" ? value : "";
}

/** Whatever the name of its variable is: the path of a key is in arguments of programs, too. */
function isNoSecret(value: string): boolean {
  return switched.test(value) || (harmless.test(value) && !shortNumber.test(value));
}

function isPlain(value: string): boolean {
  return plain.test(value) || harmless.test(value) || isIP(value) !== 0;
}

function dropOldest(collection: Map<string, number> | Set<string>, limit: number): void {
  if (collection.size <= limit) return;
  const oldest = collection.keys().next();
  if (oldest.done !== true) collection.delete(oldest.value);
}

function mapValues(map: Message, change: (text: string, key: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, change(String(value), key)]));
}

function isDefault(value: unknown): boolean {
  return (
    value === null ||
    value === undefined ||
    value === 0 ||
    value === false ||
    (Array.isArray(value) && value.length === 0)
  );
}

function isTextMap(value: Message): boolean {
  return Object.values(value).every((entry) => typeof entry === "string");
}

function isMessage(value: unknown): value is Message {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
