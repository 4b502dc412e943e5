export const checkpointPrograms = ["dockershim", "cri-dockerd"] as const;
export type CheckpointProgram = (typeof checkpointPrograms)[number];

export type CheckpointTask =
  | { readonly kind: "ls" | "verify" }
  | {
      readonly kind: "convert";
      readonly to: CheckpointProgram;
      /** Undefined: in place. */
      readonly output?: string;
      /** Although a program serves from a directory. */
      readonly anyway: boolean;
    }
  | {
      readonly kind: "repair";
      /** Undefined: by the name of each directory. */
      readonly to?: CheckpointProgram;
      readonly dockerEndpoint?: string;
      readonly dryRun: boolean;
      readonly anyway: boolean;
    };

export interface CheckpointOptions {
  readonly task: CheckpointTask;
  /** Those of dockershim and cri-dockerd when it is empty. */
  readonly directories: readonly string[];
  readonly format: "page" | "json";
}
