/**
 * Users of an image, from the text of its /etc/passwd and /etc/group, by the rules that Docker and runc share
 * for `Config.User`: `""` is user 0; digits are always an id, never a name; an id without an entry is used as
 * it is, with group 0; memberships of /etc/group count only when no group is named.
 *
 * The files come out of images and may hold anything. Lines that are not entries are skipped (runc reads a
 * broken id as 0, which would turn a broken line into a root user).
 */
import { LruMap } from "../lib/lru-map.js";

interface UserEntry {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

interface GroupEntry {
  readonly name: string;
  readonly gid: number;
  /** As in the file: names separated by commas. */
  readonly members: string;
}

export interface ResolvedImageUser {
  readonly uid: number;
  /** The primary group. */
  readonly gid: number;
  /** Groups of /etc/group that list the user, in file order, each once; empty when the text names a group. */
  readonly supplementaryGroups: readonly number[];
  /** Undefined when /etc/passwd has no entry for the user. */
  readonly name: string | undefined;
  readonly home: string | undefined;
}

/** Largest user and group id that the engine accepts. */
export const maxUserId = 2 ** 31 - 1;
/** The kernel's limit of groups of one process. More lines than that are not looked at for one name or id. */
const maxGroups = 65_536;

/** Answers that are kept: containers of an image have few users, and a status asks for each of them. */
const answersKept = 4;

/** The two files, `""` for a missing one. They may have megabytes: nothing is made of each line. */
export class ImageUserFiles {
  readonly #resolved = new LruMap<string, { readonly user: ResolvedImageUser | undefined }>(answersKept);

  constructor(
    private readonly passwd: string,
    private readonly group: string,
  ) {}

  get characters(): number {
    return this.passwd.length + this.group.length;
  }

  /**
   * Resolves `text` (`""`, `1000`, `name`, `1000:50`, `name:group`). Undefined for a user or group name that
   * the files do not have and for an id out of range: the engine refuses to start such a container.
   */
  resolve(text: string): ResolvedImageUser | undefined {
    const known = this.#resolved.get(text);
    if (known !== undefined) return known.user;
    const user = this.#find(text);
    this.#resolved.set(text, { user });
    return user;
  }

  #find(text: string): ResolvedImageUser | undefined {
    const colon = text.indexOf(":");
    const userText = colon === -1 ? text : text.slice(0, colon);
    const groupText = colon === -1 ? "" : text.slice(colon + 1);
    const user = findUser(this.passwd, userText);
    if (user === undefined) return undefined;
    if (groupText === "") return { ...user, supplementaryGroups: memberships(this.group, user.name) };
    const gid = isNumeric(groupText) ? readId(groupText) : findGroup(this.group, groupText)?.gid;
    return gid === undefined ? undefined : { ...user, gid, supplementaryGroups: [] };
  }
}

type FoundUser = Omit<ResolvedImageUser, "supplementaryGroups">;

/** The first of several entries with one name or id counts, as everywhere. */
function findUser(passwd: string, text: string): FoundUser | undefined {
  if (text !== "" && !isNumeric(text)) {
    if (!isName(text)) return undefined;
    return first(linesWith(passwd, beginningWith(text)), parseUser, ({ name }) => name === text);
  }
  const id = text === "" ? 0 : readId(text);
  if (id === undefined) return undefined;
  const other = "[^:\\n\\r\\u2028\\u2029]*";
  const third = new RegExp(`^${other}:${other}:0*${id}:`, "gm");
  const found = first(linesWith(passwd, third), parseUser, ({ uid }) => uid === id);
  return found ?? { uid: id, gid: 0, name: undefined, home: undefined };
}

function findGroup(group: string, text: string): GroupEntry | undefined {
  if (!isName(text)) return undefined;
  return first(linesWith(group, beginningWith(text)), parseGroup, ({ name }) => name === text);
}

function memberships(group: string, user: string | undefined): readonly number[] {
  if (user === undefined || !isName(user) || user.includes(",")) return [];
  const gids = new Set<number>();
  const member = new RegExp(`[:,][\\t ]*${escape(user)}[\\t ]*(?:,|$)`, "gm");
  for (const line of linesWith(group, member)) {
    const entry = parseGroup(line);
    if (entry?.members.split(",").some((one) => one.trim() === user) === true) gids.add(entry.gid);
  }
  return [...gids];
}

/** The first entry of `lines` that is well formed and wanted. */
function first<Entry>(
  lines: Iterable<string>,
  parse: (line: string) => Entry | undefined,
  isWanted: (entry: Entry) => boolean,
): Entry | undefined {
  for (const line of lines) {
    const entry = parse(line);
    if (entry !== undefined && isWanted(entry)) return entry;
  }
  return undefined;
}

/** Longer names, which no system has, and those with line ends are not searched: they cost too much time. */
function isName(text: string): boolean {
  return text.length <= 256 && !/[\n\r\u2028\u2029]/.test(text);
}

function beginningWith(name: string): RegExp {
  return new RegExp(`^[\\t ]*${escape(name)}:`, "gm");
}

function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/**
 * Trimmed lines that `pattern` finds, each once and only so many. An image may have lines of any length: a
 * pattern must not look at a character more than a few times. (`^` also matches behind `\r` and the two line
 * ends of Unicode, so a pattern must not run across those.)
 */
function* linesWith(text: string, pattern: RegExp): Generator<string> {
  for (let count = 0; count < maxGroups; count += 1) {
    const found = pattern.exec(text);
    if (found === null) return;
    const start = text.lastIndexOf("\n", found.index) + 1;
    const newline = text.indexOf("\n", found.index);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(start, end).trim();
    if (!line.startsWith("#")) yield line;
    pattern.lastIndex = end;
  }
}

function parseUser(line: string): UserEntry | undefined {
  const [name = "", , uidText = "", gidText = "", , home = ""] = line.split(":", 7);
  const uid = readId(uidText);
  const gid = readId(gidText);
  if (name === "" || uid === undefined || gid === undefined) return undefined;
  return { name, uid, gid, home };
}

function parseGroup(line: string): GroupEntry | undefined {
  const [name = "", , gidText = "", members = ""] = line.split(":", 4);
  const gid = readId(gidText);
  return name === "" || gid === undefined ? undefined : { name, gid, members };
}

function isNumeric(text: string): boolean {
  return /^[+-]?\d+$/.test(text);
}

function readId(text: string): number | undefined {
  if (!/^\d{1,10}$/.test(text)) return undefined;
  const id = Number(text);
  return id <= maxUserId ? id : undefined;
}
