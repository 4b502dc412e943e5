/** Edits as one unified diff that `patch -p1 -d /` applies. Pure. */
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from "diff";

export interface FileEdit {
  /** Absolute path on the node, without links. */
  readonly path: string;
  /** Undefined: the file is new. */
  readonly before: string | undefined;
  /** Undefined: the file goes. */
  readonly after: string | undefined;
}

export function unifiedDiff(edits: readonly FileEdit[]): string {
  return edits
    .map(({ path, before, after }) =>
      createTwoFilesPatch(
        before === undefined ? "/dev/null" : `a${path}`,
        after === undefined ? "/dev/null" : `b${path}`,
        before ?? "",
        after ?? "",
        undefined,
        undefined,
        { context: 3, headerOptions: FILE_HEADERS_ONLY },
      ),
    )
    .join("");
}

export function reverseEdits(edits: readonly FileEdit[]): readonly FileEdit[] {
  return edits.map(({ path, before, after }) => ({ path, before: after, after: before }));
}
