/**
 * Users of an image, from the text of its /etc/passwd and /etc/group, by the rules that Docker and runc share
 * for `Config.User`: `""` is user 0; digits are always an id, never a name; an id without an entry is used as
 * it is, with group 0; memberships of /etc/group count only when no group is named.
 *
 * The files come out of images and may hold anything. Lines that are not entries are skipped (runc reads a
 * broken id as 0, which would turn a broken line into a root user).
 */

/** The two files, parsed once; of several entries with one name or id the first counts, as everywhere. */
export interface ImageUserFiles {
  readonly usersByName: ReadonlyMap<string, ImageUserEntry>;
  readonly usersById: ReadonlyMap<number, ImageUserEntry>;
  readonly groupsByName: ReadonlyMap<string, number>;
  readonly groups: readonly ImageGroupEntry[];
}

export interface ImageUserEntry {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

export interface ImageGroupEntry {
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
/** The kernel's limit of groups of one process. */
const maxGroups = 65_536;
/** Entries beyond this number are ignored. */
const maxEntries = 200_000;

/** Reads the two files; a missing file is `""`. */
export function parseImageUserFiles(passwd: string, group: string): ImageUserFiles {
  const usersByName = new Map<string, ImageUserEntry>();
  const usersById = new Map<number, ImageUserEntry>();
  for (const line of lines(passwd)) {
    const entry = parseUser(line);
    if (entry === undefined) continue;
    if (!usersByName.has(entry.name)) usersByName.set(entry.name, entry);
    if (!usersById.has(entry.uid)) usersById.set(entry.uid, entry);
  }
  const groupsByName = new Map<string, number>();
  const groups: ImageGroupEntry[] = [];
  for (const line of lines(group)) {
    const [name = "", , gidText = "", members = ""] = line.split(":", 4);
    const gid = readId(gidText);
    if (name === "" || gid === undefined) continue;
    if (!groupsByName.has(name)) groupsByName.set(name, gid);
    if (members !== "") groups.push({ gid, members });
  }
  return { usersByName, usersById, groupsByName, groups };
}

/**
 * Resolves `text` (`""`, `1000`, `name`, `1000:50`, `name:group`). Undefined for a user or group name that
 * the files do not have and for an id out of range: the engine refuses to start such a container.
 */
export function resolveImageUser(files: ImageUserFiles, text: string): ResolvedImageUser | undefined {
  const colon = text.indexOf(":");
  const userText = colon === -1 ? text : text.slice(0, colon);
  const groupText = colon === -1 ? "" : text.slice(colon + 1);
  const user = findUser(files, userText);
  if (user === undefined) return undefined;
  if (groupText === "") return { ...user, supplementaryGroups: memberships(files, user.name) };
  const gid = isNumeric(groupText) ? readId(groupText) : files.groupsByName.get(groupText);
  return gid === undefined ? undefined : { ...user, gid, supplementaryGroups: [] };
}

type FoundUser = Omit<ResolvedImageUser, "supplementaryGroups">;

function findUser(files: ImageUserFiles, text: string): FoundUser | undefined {
  if (text !== "" && !isNumeric(text)) return files.usersByName.get(text);
  const uid = text === "" ? 0 : readId(text);
  if (uid === undefined) return undefined;
  return files.usersById.get(uid) ?? { uid, gid: 0, name: undefined, home: undefined };
}

function memberships(files: ImageUserFiles, user: string | undefined): readonly number[] {
  if (user === undefined) return [];
  const gids = new Set<number>();
  for (const { gid, members } of files.groups) {
    // Most entries name other users: splitting them is slower.
    if (!members.includes(user) || !members.split(",").some((member) => member.trim() === user)) continue;
    gids.add(gid);
    if (gids.size === maxGroups) break;
  }
  return [...gids];
}

function parseUser(line: string): ImageUserEntry | undefined {
  const [name = "", , uidText = "", gidText = "", , home = ""] = line.split(":", 7);
  const uid = readId(uidText);
  const gid = readId(gidText);
  if (name === "" || uid === undefined || gid === undefined) return undefined;
  return { name, uid, gid, home };
}

function isNumeric(text: string): boolean {
  return /^[+-]?\d+$/.test(text);
}

function readId(text: string): number | undefined {
  if (!/^\d{1,10}$/.test(text)) return undefined;
  const id = Number(text);
  return id <= maxUserId ? id : undefined;
}

/** Trimmed lines that may be entries, without making an array of a file that may have millions. */
function* lines(text: string): Generator<string> {
  let count = 0;
  for (let start = 0; start < text.length && count < maxEntries; count += 1) {
    const newline = text.indexOf("\n", start);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(start, end).trim();
    if (line !== "" && !line.startsWith("#")) yield line;
    start = end + 1;
  }
}
