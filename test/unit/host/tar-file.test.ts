import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { addContent, addEntry, writeTar } from "../../../src/shim/host/tar-file.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

describe("writeTar()", () => {
  for (const what of ["addEntry()", "addContent() without content"])
    test(`has few entries of ${what} in memory`, async () => {
      await using directory = await temporaryDirectory();
      const path = join(directory.path, "x.tar");
      const count = 5000;
      let most = 0;
      await writeTar(
        path,
        async (to) => {
          const { _readableState: state } = to.tar as unknown as { _readableState: { buffered: number } };
          for (let index = 0; index < count; index++) {
            if (what === "addEntry()") await addEntry(to, { name: `${index}/`, type: "directory" });
            else await addContent(to, { name: String(index), size: 0 }, []);
            most = Math.max(most, state.buffered + to.file.writableLength);
          }
        },
        new AbortController().signal,
      );
      assert.equal((await stat(path)).size, count * 512 + 1024);
      assert.ok(most < 512 * 1024, `${most} bytes`);
    });
});
