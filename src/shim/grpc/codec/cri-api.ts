/** The CRI's services and messages, in both versions. */
import { criMessages, criRpcs, v1alpha2Rpcs } from "../../../domain/cri-descriptors.js";
import type {
  Answer,
  Container,
  ContainerStats,
  Image,
  PodSandbox,
  PodSandboxMetrics,
  PodSandboxStats,
} from "../../../domain/cri.js";
import { DescriptorTable } from "./descriptors.js";
import { compileEncoder } from "./message-encoder.js";
import { methodOf, type Method } from "./method.js";
import type { UnknownFields } from "./unknown-fields.js";

/** Encoders of list items: their bytes are kept between calls, or there are many of them. */
export interface ItemEncoders {
  readonly container: (message: Answer<Container>) => Buffer;
  readonly sandbox: (message: Answer<PodSandbox>) => Buffer;
  readonly containerStats: (message: Answer<ContainerStats>) => Buffer;
  readonly sandboxStats: (message: Answer<PodSandboxStats>) => Buffer;
  readonly sandboxMetrics: (message: Answer<PodSandboxMetrics>) => Buffer;
  readonly image: (message: Answer<Image>) => Buffer;
}

export interface CriApi {
  /** Every method of the four services (two API versions). */
  readonly methods: readonly Method[];
  readonly encodeItem: ItemEncoders;
}

/** `unknownFields` is told of each request that has fields of a later version of the protocol. */
export function criApi(unknownFields?: Pick<UnknownFields, "seen">): CriApi {
  const table = new DescriptorTable(criMessages);
  const older = new Set(v1alpha2Rpcs);
  const methods = table.rpcs(criRpcs).flatMap((rpc) => {
    const { name, service } = rpc;
    const own = methodOf(rpc, `/runtime.v1.${service}/${name}`, unknownFields);
    // Every method of v1alpha2 is one of v1, too, and its messages are the same bytes. Read as v1 they also
    // have the fields that are newer than v1alpha2, as their defaults, which is what handlers count on.
    return older.has(name) ? [own, { ...own, path: `/runtime.v1alpha2.${service}/${name}` }] : [own];
  });
  const item = <T>(name: string): ((message: Answer<T>) => Buffer) => {
    const encode = compileEncoder(table.message(name));
    return (message) => encode(message as object);
  };
  return {
    methods,
    encodeItem: {
      container: item<Container>("Container"),
      sandbox: item<PodSandbox>("PodSandbox"),
      containerStats: item<ContainerStats>("ContainerStats"),
      sandboxStats: item<PodSandboxStats>("PodSandboxStats"),
      sandboxMetrics: item<PodSandboxMetrics>("PodSandboxMetrics"),
      image: item<Image>("Image"),
    },
  };
}
