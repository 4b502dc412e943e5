/** Messages and RPCs as the generated tables of domain/ describe them: cri-descriptors.ts, cadvisor-descriptors.ts. */
import { ShimError } from "../../../lib/errors.js";

/** A message. Its fields are parsed when they are first asked for: most messages are never sent. */
export class MessageDescriptor {
  #fields: readonly FieldDescriptor[] | undefined;

  /** `text`: `name=number type` of each field, separated by commas. */
  constructor(
    readonly name: string,
    private readonly text: string,
    private readonly table: Pick<DescriptorTable, "message">,
  ) {}

  get fields(): readonly FieldDescriptor[] {
    return (this.#fields ??= this.text
      .split(",")
      .filter((field) => field !== "")
      .map((field) => parseField(field, this.table)));
  }
}

export interface FieldDescriptor {
  readonly name: string;
  readonly number: number;
  readonly kind: "single" | "list" | "map";
  /** `string`, `int64`, `enum`, `message` … */
  readonly type: string;
  /** The type of a message, or of the entries of a map, with the fields `key` and `value`. */
  readonly message?: MessageDescriptor;
}

export interface RpcDescriptor {
  readonly name: string;
  readonly service: string;
  readonly request: MessageDescriptor;
  readonly response: MessageDescriptor;
  readonly responseStream: boolean;
}

export class DescriptorTable {
  readonly #messages = new Map<string, MessageDescriptor>();

  constructor(private readonly texts: Readonly<Record<string, string>>) {}

  /** `internal` when the table has no such message. */
  message(name: string): MessageDescriptor {
    let message = this.#messages.get(name);
    if (message === undefined) {
      const text = this.texts[name];
      if (text === undefined) throw new ShimError("internal", `no message is named "${name}"`);
      message = new MessageDescriptor(name, text, this);
      this.#messages.set(name, message);
    }
    return message;
  }

  /** By name: service, request, response, and `stream` when there are several responses. */
  rpcs(texts: Readonly<Record<string, string>>): RpcDescriptor[] {
    return Object.entries(texts).map(([name, text]) => {
      const [service = "", request = "", response = "", stream] = text.split(" ");
      return {
        name,
        service,
        request: this.message(request),
        response: this.message(response),
        responseStream: stream !== undefined,
      };
    });
  }
}

/** `id=1 string`, `mounts=7 message:Mount[]`, `protocol=1 enum:Protocol`, `labels=6 map string string` */
function parseField(text: string, table: Pick<DescriptorTable, "message">): FieldDescriptor {
  const [id = "", type = "", key, value] = text.split(" ");
  const [name = "", digits = ""] = id.split("=");
  const number = Number(digits);
  if (type === "map" && key !== undefined && value !== undefined) {
    const message = new MessageDescriptor(`${name} entry`, `key=1 ${key},value=2 ${value}`, table);
    return { name, number, kind: "map", type: "message", message };
  }
  const isList = type.endsWith("[]");
  const kind = isList ? "list" : "single";
  const [simple = "", typeName = ""] = (isList ? type.slice(0, -2) : type).split(":");
  return simple === "message"
    ? { name, number, kind, type: simple, message: table.message(typeName) }
    : { name, number, kind, type: simple };
}
