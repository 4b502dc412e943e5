/**
 * Which `:authority` a request may have. Clients that set none (kubelets before a change of 2024) send the
 * path of the socket, which the HTTP/2 library of Node refuses, as it does an empty or absent one; Go servers
 * answer them all. Nothing in this program reads the authority: a replacement is as good as the original.
 */
import type { HeaderField } from "./hpack.js";

const replacement = "localhost";
/** The characters that nghttp2 accepts; it wants at least one. */
const acceptable = /^[-A-Za-z0-9._~!$&'()*+,;=%:@[\]]+$/;

/** `fields` with an authority that Node accepts; the same array when it does already, or when this is no request. */
export function repairAuthority(fields: readonly HeaderField[]): readonly HeaderField[] {
  // Trailers have no pseudo-header fields and must not get one.
  if (!fields.some(({ name }) => name === ":method")) return fields;
  const authorities = fields.filter(namesAuthority);
  if (authorities.length === 0) {
    // In front, because pseudo-header fields precede all others.
    return [{ name: ":authority", value: replacement, neverIndexed: false }, ...fields];
  }
  if (authorities.every(({ value }) => acceptable.test(value))) return fields;
  return fields.map((field) =>
    namesAuthority(field) && !acceptable.test(field.value) ? { ...field, value: replacement } : field,
  );
}

/** A request may name its authority in the field of HTTP/1 instead. */
function namesAuthority({ name }: HeaderField): boolean {
  return name === ":authority" || name === "host";
}
