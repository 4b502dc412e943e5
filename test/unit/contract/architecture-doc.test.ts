/** The table of rooms in ARCHITECTURE.md says of imports what scripts/check-layers.mjs enforces. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { layers } from "../../../scripts/check-layers.mjs";

const text = readFileSync(new URL("../../../ARCHITECTURE.md", import.meta.url), "utf8");

/** Rooms of the table; those inside a room, such as `compare/relay`, have no row. */
const rooms: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.keys(layers)
    .map(roomOf)
    .map((room) => [room, roomsBelow(room)]),
);

function roomsBelow(name: string): readonly string[] {
  const inside = Object.entries(layers).filter(([layer]) => roomOf(layer) === name);
  const below = inside.flatMap(([, names]) => names.map(roomOf));
  return [...new Set(below)].filter((room) => room !== name);
}

function roomOf(layer: string): string {
  return layer.replace(/\/.*$/, "");
}

/** `names`, and all that these may import, and so on. */
function withBelow(names: readonly string[]): ReadonlySet<string> {
  const all = new Set(names);
  for (const name of all) for (const below of rooms[name] ?? []) all.add(below);
  return all;
}

test("ARCHITECTURE.md names the imports of each room", () => {
  const table = /^## Rooms\n([\s\S]*?)^## /m.exec(text)?.[1] ?? "";
  const seen: string[] = [];
  const wrong: string[] = [];
  for (const [, path = "", cell = ""] of table.matchAll(/^\| `([\w/-]+)` \| .* \| ([^|]+) \|$/gm)) {
    const room = path.replace(/^.*\//, "");
    const allowed = rooms[room];
    if (allowed === undefined || cell === "all above" || cell === "the rooms of commands") continue;
    seen.push(room);
    const same = /^as (\w+)$/.exec(cell)?.[1];
    const isWithBelow = cell.endsWith(" and below");
    const named = cell === "–" ? [] : cell.replace(/ and below$/, "").split(", ");
    const covered = isWithBelow ? withBelow(named) : new Set(same === undefined ? named : rooms[same]);
    for (const one of same === undefined ? named : [])
      if (!allowed.includes(one)) wrong.push(`${room} may not import ${one}`);
    for (const one of allowed) if (!covered.has(one)) wrong.push(`${room} may import ${one}, too`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(seen.length >= 25, `only ${String(seen.length)} rooms were found`);
});
