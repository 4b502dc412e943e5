import { Readable } from "node:stream";
import { extract, type Header } from "tar-stream";

export interface TarMember {
  readonly header: Header;
  readonly content: Buffer;
}

/** The members of a tar by name, in their order. */
export async function readTar(tar: Buffer): Promise<Map<string, TarMember>> {
  const members = new Map<string, TarMember>();
  for await (const entry of Readable.from([tar]).pipe(extract())) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    members.set(entry.header.name, { header: entry.header, content: Buffer.concat(chunks) });
  }
  return members;
}

/** Content of member `name`, which must be there. */
export function contentOf(members: ReadonlyMap<string, TarMember>, name: string): Buffer {
  const member = members.get(name);
  if (member === undefined)
    throw new Error(`no "${name}" in the archive, only ${[...members.keys()].join(", ")}`);
  return member.content;
}

export function jsonOf(members: ReadonlyMap<string, TarMember>, name: string): unknown {
  return JSON.parse(contentOf(members, name).toString());
}
