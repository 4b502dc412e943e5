import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { withoutMounts } from "../play/node/can-mount.js";

const program = fileURLToPath(new URL("../../../scripts/image/share-directories", import.meta.url));

const skip = withoutMounts();

/** In namespaces of its own; the shell takes the name of the engine's process. */
const script = `
set -eu
mount --make-rprivate /
echo dockerd >/proc/self/comm
for run in 1 2 3; do sh "$2" "$1/state" "$1/kubelet"; done
cat /proc/self/mountinfo
`;

test("share-directories makes one mount of a directory, however often it runs", { skip }, async () => {
  await using directory = await temporaryDirectory();
  const { stdout } = await promisify(execFile)("unshare", [
    ...["--mount", "--pid", "--fork", "--mount-proc"],
    ...["sh", "-c", script, "sh", directory.path, program],
  ]);
  const shared = stdout
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([, , , , path = ""]) => path.startsWith(directory.path))
    .map(([, , , , path, , propagation = ""]) => [path, propagation.split(":")[0]]);
  assert.deepEqual(shared, [
    [join(directory.path, "state"), "shared"],
    [join(directory.path, "kubelet"), "shared"],
  ]);
});
